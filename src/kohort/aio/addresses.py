"""From a host's name to a socket: the addresses of a name in turn, so that one where nobody answers keeps no client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final

AddressInfo = tuple[Any, ...]
"""What ``getaddrinfo`` gives for one address."""
NO_HOST: Final = "it is no name of a host"


async def connect_to(host: str, port: int, limit_s: float) -> socket.socket:
    """Return a socket that is connected to the first of the host's addresses that answers.

    Kafka's ``client.dns.lookup=use_all_dns_ips`` (KIP-302): every address is tried. All of it is to be done within
    ``limit_s`` seconds, so an address waits for its share only. Raises OSError, of the last one that failed.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label of more than 63 letters, an empty one
        raise OSError(0, NO_HOST) from None
    return await first_connected(addresses, limit_s)


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
