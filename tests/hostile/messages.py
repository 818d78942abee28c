"""A sender written from docs/wire.md alone: valid messages, and messages with any mistake and any number."""

import json
import math
import struct
from random import Random
from typing import Any

Frames = list[bytes]

INTEGERS = (
    *(0, 1, 2, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32, 2**40, 2**52, 2**53 - 2, 2**53 - 1, 2**53),
    *(2**63 - 1, 2**64, -1, -(2**63)),
)
NUMBERS = (0.0, -1.0, 5e-324, 1e-300, 1e-6, 0.5, 256.0, 999.0, 1e9, 1e15, 1e308, -1e308, math.nan, math.inf)
TEXTS = ("", "s", "t", "x" * 300, "a\nb\x1b[31m", "\ud800", "=1+1", "\0", "learning", "restart")
OTHERS: tuple[Any, ...] = (None, True, [], {}, [[]], {"a": [1, {"b": None}]}, [1, 2, 3])
VALUES = (0.0, -0.0, 1.0, -1e-300, 5e-324, 1e30, 3.4e38, 1e100, 1.7e308, -1.7e308, math.nan, math.inf)
TYPES = {"float32": "f", "float64": "d", "int16": "h", "int32": "i"}
REASONS = ("lost", "bad", "failed", "learning", "restart", "x")


class HostileSender:
    """Makes messages of a stream: most are valid in form, and some of those continue the last ones.

    Parameters
    ----------
    random : Random
        Where all choices come from.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._start, self._seq = 0, 0
        self._run: int | None = 1
        self._stream, self._rate, self._dtype, self._n_channels = "s", 1000.0, "float32", 3

    def make(self) -> Frames:
        """Return the next message."""
        random = self._random
        if random.random() < 0.05:
            self._change()
        header, buffer = self._make_valid()
        if random.random() < 0.3:
            for _ in range(random.randint(1, 3)):
                header = self._mutate(header)
        head = json.dumps(header).encode()
        frames = [self._stream.encode(), head, buffer]
        return self._cut(frames) if random.random() < 0.1 else frames

    def _change(self) -> None:
        """Restart as another device, or jump."""
        random = self._random
        choice = random.randrange(6)
        if choice == 0:
            self._run, self._start, self._seq = random.choice((1, 2, random.randrange(2**50), None)), 0, 0
        elif choice == 1:
            self._n_channels = random.choice((1, 2, 3, 8))
        elif choice == 2:
            self._rate = random.choice((1e-6, 1.0, 250.0, 1000.0, 1000.5, 1e9))
        elif choice == 3:
            self._dtype = random.choice(tuple(TYPES))
        elif choice == 4:
            self._start = random.choice((0, 2**31, 2**40, 2**52, 2**53 - 2000))
        else:
            self._stream = random.choice(("s", "s", "s", "t"))

    def _make_valid(self) -> tuple[dict[str, Any], bytes]:
        random = self._random
        common = {"version": 1, "stream": self._stream, "run": self._run, "seq": self._seq}
        description = {"rate": self._rate, "dtype": self._dtype, "unit": "uV", "t0": 1.7e9}
        kind = random.choices(("data", "meta", "gap", "end"), (80, 10, 8, 2))[0]
        header: dict[str, Any] = {"kind": kind, **common}
        if kind == "meta":
            return header | description | {"channels": [f"c{i}" for i in range(self._n_channels)]}, b""
        if kind == "end":
            return header | {"start": self._start}, b""
        self._seq += 1
        if kind == "gap":
            length = random.choice((0, 1, 10, 1000, 2**20, 2**40, 2**52))
            header |= {"start": self._start, "n_samples": length, "reason": random.choice(REASONS)}
            self._start += length
            return header, b""
        n_samples = random.choice((1, 1, 5, 20, 100))
        header |= description | {"shape": [n_samples, self._n_channels], "start": self._start}
        self._start += n_samples
        return header, self._pack(n_samples * self._n_channels)

    def _pack(self, n_values: int) -> bytes:
        code = TYPES[self._dtype]
        random = Random(self._random.getrandbits(32))  # one choice of the sender, for all values
        if code in "hi":
            return struct.pack(
                f"<{n_values}{code}", *(random.randint(-3000, 3000) for _ in range(n_values))
            )
        values = [random.gauss(0.0, 50.0) for _ in range(n_values)]
        if random.random() < 0.1:
            extreme = random.choice(VALUES)
            is_small = code == "d" or not math.isfinite(extreme) or abs(extreme) < 3.5e38
            values[random.randrange(n_values)] = extreme if is_small else 3.4e38
        return struct.pack(f"<{n_values}{code}", *values)

    def _mutate(self, header: dict[str, Any]) -> dict[str, Any]:
        """Change or remove a field, or add one of another kind of message."""
        random = self._random
        name = random.choice(
            (*header, "scale", "mixing", "delay", "model", "shape", "start", "n_samples", "reason")
        )
        if random.random() < 0.2:
            return {key: value for key, value in header.items() if key != name}
        value: Any = random.choice(random.choice((INTEGERS, NUMBERS, TEXTS, OTHERS)))
        if name == "shape" and random.random() < 0.8:
            value = [random.choice(INTEGERS), random.choice(INTEGERS)]
        return header | {name: value}

    def _cut(self, frames: Frames) -> Frames:
        """Damage the bytes or the number of frames."""
        random = self._random
        at = random.randrange(len(frames))
        choice = random.randrange(5)
        if choice == 0:
            frames[at] = frames[at][: random.randint(0, len(frames[at]))]
        elif choice == 1:
            frames[at] += random.randbytes(random.randint(1, 40))
        elif choice == 2:
            del frames[at]
        elif choice == 3:
            frames.insert(at, frames[at])
        else:
            frames[at] = random.randbytes(random.randint(0, 200))
        return frames or [b""]
