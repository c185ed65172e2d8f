"""From a host's name to a socket: the addresses of a name in turn, so that one where nobody answers keeps no client.

A look-up that takes longer than an attempt to connect goes on, and the next attempt has what comes of it: begun anew
each time it would never end in time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

AddressInfo = tuple[Any, ...]
NO_HOST: Final = "it is no name of a host"
KEPT_S: Final = 30.0
"""For how long what nobody waited for to its end is there for the next attempt."""
LookUp = asyncio.Task[Sequence[AddressInfo]]
_looked_up: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], LookUp]]] = WeakKeyDictionary()


async def connect_to(host: str, port: int, limit_s: float) -> socket.socket:
    """Return a socket that is connected to the first of the host's addresses that answers.

    Kafka's ``client.dns.lookup=use_all_dns_ips`` (KIP-302): every address is tried. All of it is to be done within
    ``limit_s`` seconds, so an address waits for its share only. Raises OSError, of the last one that failed.
    """
    try:
        addresses = await _addresses_of(host, port)
    except UnicodeError:  # a label of more than 63 letters, an empty one
        raise OSError(0, NO_HOST) from None
    return await first_connected(addresses, limit_s)


async def _addresses_of(host: str, port: int) -> Sequence[AddressInfo]:
    """Return the addresses of a name: of a look-up that is under way, or was when an earlier attempt was given up."""
    loop = asyncio.get_running_loop()
    of_loop = _looked_up.setdefault(loop, {})
    key = host, port
    asked = of_loop.get(key)
    if asked is None:
        asked = of_loop[key] = loop.create_task(_look_up(loop, host, port))
        asked.add_done_callback(lambda done: loop.call_later(KEPT_S, _forget, of_loop, key, done))
    try:
        return await asyncio.shield(asked)
    finally:
        if asked.done():
            _forget(of_loop, key, asked)


async def _look_up(loop: asyncio.AbstractEventLoop, host: str, port: int) -> Sequence[AddressInfo]:
    return await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _forget(of_loop: dict[tuple[str, int], LookUp], key: tuple[str, int], done: LookUp) -> None:
    if of_loop.get(key) is done:
        del of_loop[key]
    if not done.cancelled():
        done.exception()  # else it is told that nobody asked for it


async def first_connected(addresses: Sequence[AddressInfo], limit_s: float) -> socket.socket:
    """Return a socket that is connected to the first address that answers within its share of the time.

    The last one has all that is left. Raises OSError, of the last one that failed.
    """
    share_s = limit_s / (len(addresses) + 1)
    refused: OSError = OSError(0, "the name has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        try:
            async with asyncio.timeout(share_s if number < len(addresses) else None):
                return await _connected(family, kind, protocol, address)
        except TimeoutError:
            refused = OSError(0, f"{address[0]} does not answer")
        except OSError as error:
            refused = error
    raise refused


async def _connected(family: int, kind: int, protocol: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return made
