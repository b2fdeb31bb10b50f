"""Which port is mirrored when: every site moves its one mirror from port to port, all sites at the same time."""

from collections.abc import Iterator
from dataclasses import dataclass

from .settings import Settings
from .testbeds.base import Direction, Port, Replay, Site


@dataclass(frozen=True)
class Shot:
    """One sample to take; `run` is None for a trial, `environment` and `trial` for every other sample."""

    run: int | None
    sample: str
    site: Site
    port: Port
    direction: Direction
    environment: str | None = None
    trial: int | None = None

    @property
    def file(self) -> str:
        """The capture's name, on the node and in raw/."""
        return f"{self.sample}.pcap"


def plan(settings: Settings, sites: tuple[Site, ...]) -> Iterator[list[Shot]]:
    """Yield the shots of one moment, at most one a site, in order of time.

    A port's samples do not follow each other: the mirror visits every port, then all of them again, so that a port's
    samples spread over the run.
    """
    capture = settings.capture
    for run in range(1, settings.runs + 1):
        rounds = [
            [
                Shot(run, f"run{run}-{site.name}-{port.name}-{direction}-{number}", site, port, direction)
                for number in range(1, capture.samples_per_port + 1)
                for port in site.ports
                for direction in capture.directions
            ]
            for site in sites
        ]
        for moment in range(max(map(len, rounds))):
            yield [shots[moment] for shots in rounds if moment < len(shots)]


def trials(replay: Replay | None) -> Iterator[list[Shot]]:
    """Yield the shots of each environment in which one capture is replayed, in order of time."""
    for environment in replay.environments if replay else ():
        yield [
            Shot(None, f"{environment}-{trial}", replay.site, replay.port, replay.direction, environment, trial)
            for trial in range(1, replay.repeats + 1)
        ]
