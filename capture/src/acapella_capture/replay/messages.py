"""Requests of a controller and responses of an agent. Every value is checked; invalid lines are rejected."""

from dataclasses import asdict, dataclass
from typing import Any

from acapella_core.control_lines import InvalidMessage, members, whole

TIME_BITS = 62  # nanoseconds since 1970: until the year 2116
MAX_LOOPS = 1_000_000_000
MAX_SPEED_PPM = 1_000_000_000  # a thousand times as fast as recorded
MAX_ROLLING_S = 86_400
MAX_TEXT = 300  # characters of an error


@dataclass(frozen=True)
class Record:
    """Record from a time until a time, ns since 1970 on the agent's clock; 0: immediately, and until stopped."""

    from_ns: int = 0
    until_ns: int = 0


@dataclass(frozen=True)
class Rolling:
    """Record and keep the last ``seconds``."""

    seconds: int


@dataclass(frozen=True)
class Stop:
    """Stop recording, or the run."""


@dataclass(frozen=True)
class Save:
    """Write the recording to a file of the agent."""


@dataclass(frozen=True)
class Clear:
    """Discard the recording."""


@dataclass(frozen=True)
class Run:
    """Replay the recording at a time, ns since 1970 on the agent's clock."""

    at_ns: int
    loops: int = 1
    speed_ppm: int = 1_000_000


@dataclass(frozen=True)
class Status:
    """Return state and counters."""


@dataclass(frozen=True)
class Clock:
    """Return the agent's clock."""


@dataclass(frozen=True)
class Fetch:
    """Return a part of the departures of the last run, from an offset in bytes."""

    offset: int


@dataclass(frozen=True)
class Disconnect:
    """End the connection; the recording or run that it started continues."""


@dataclass(frozen=True)
class Quit:
    """End the agent."""


Request = Record | Rolling | Stop | Save | Clear | Run | Status | Clock | Fetch | Disconnect | Quit
# names of requests in lines and errors
NAMES: dict[type, str] = {kind: kind.__name__.lower() for kind in Request.__args__} | {Disconnect: "bye"}
REQUESTS: dict[str, type] = {name: kind for kind, name in NAMES.items()}
BOUNDS: dict[str, tuple[int, int]] = {  # minimum and maximum value by parameter name
    "from_ns": (0, 2**TIME_BITS - 1),
    "until_ns": (0, 2**TIME_BITS - 1),
    "seconds": (1, MAX_ROLLING_S),
    "at_ns": (1, 2**TIME_BITS - 1),
    "loops": (1, MAX_LOOPS),
    "speed_ppm": (1, MAX_SPEED_PPM),
    "offset": (0, 2**TIME_BITS - 1),
}


def encode(request: Request) -> dict[str, Any]:
    """Return the member of a line that contains a request."""
    return {NAMES[type(request)]: asdict(request)}


def decode(message: dict) -> Request:
    """Return the request of a line, whose sequence number was removed. Raises InvalidMessage."""
    name = next(iter(message), None)
    if len(message) != 1 or name not in REQUESTS:
        raise InvalidMessage("unknown request")
    kind = REQUESTS[name]
    values = members(message[name], name, *kind.__dataclass_fields__)
    for key, value in values.items():
        low, high = BOUNDS[key]
        if type(value) is not int or not low <= value <= high:
            raise InvalidMessage(f"{key} is not a whole number from {low} to {high}")
    request = kind(**values)
    if isinstance(request, Record) and request.until_ns and request.until_ns <= request.from_ns:
        raise InvalidMessage("until_ns is not after from_ns")
    return request


def done_of(message: dict, sequence: int) -> dict:
    """Return the result in an agent's response to the request with a sequence number.

    Raises InvalidMessage, with the agent's text if the agent rejected the request.
    """
    if set(message) == {"to", "error"} and isinstance(message["error"], str):
        raise InvalidMessage(
            "".join(character if character.isprintable() else "?" for character in message["error"][:MAX_TEXT])
        )
    fields = members(message, "the response", "to", "done")
    if whole(fields["to"], "to", 53) != sequence or not isinstance(fields["done"], dict):
        raise InvalidMessage("the response is for a different request")
    return fields["done"]
