"""A relay between clients and a broker that damages the traffic once."""

from __future__ import annotations

import socket
import threading

import kohort


class Relay:
    """A relay in front of the broker. ``damage(mark)``: flip one bit when these bytes next come from the broker."""

    def __init__(self, **options: object) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{port}"
        self._behind = ("127.0.0.2", port)
        self.broker = kohort.Broker(listen=f"127.0.0.2:{port}", advertised_listeners=self.bootstrap, **options)
        self.damaged = 0
        self._marks: list[bytes] = []
        self._sockets: list[socket.socket] = []

    def damage(self, mark: bytes, times: int = 1) -> None:
        self._marks += [mark] * times

    def __enter__(self) -> Relay:
        self.broker.start()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        for each in self._sockets:
            each.close()
        self.broker.stop()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            broker = socket.create_connection(self._behind)
            self._sockets += [client, broker]
            threading.Thread(target=self._pass_on, args=(client, broker, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(broker, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, may_damage: bool) -> None:
        try:
            while data := source.recv(1 << 20):
                target.sendall(self._damaged(data) if may_damage else data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return

    def _damaged(self, data: bytes) -> bytes:
        if self._marks and (at := data.find(self._marks[0])) >= 0:
            self._marks.pop(0)
            self.damaged += 1
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        return data
