"""``airflow-dispatch replay``: a recording through the hub's own store and the classification."""

from __future__ import annotations

import argparse

from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.files import read_file
from airflow_dispatch.cli.printing import Story, add_output_option, note, show
from airflow_dispatch.core.errors import InvalidFile
from airflow_dispatch.kube.observing import observations
from airflow_dispatch.recording.format import Recording, parse
from airflow_dispatch.recording.replaying import changes, replay

__all__ = ["add_parser"]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds ``replay``."""
    description = "replays a recording, with no cluster, and prints each object as it stands at the end"
    parser = commands.add_parser("replay", help=description, description=description)
    parser.add_argument("file", metavar="FILE", help="the recording, gzipped or not; - is standard input")
    parser.add_argument("--until", metavar="MOMENT", help="a mark, or seconds since the start (default: the end)")
    parser.add_argument("--all", action="store_true", help="each change up to then")
    add_output_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    text = read_file(options.file)
    try:
        recording = parse(text)
        until = recording.moment(options.until)
    except InvalidFile as error:
        raise InvalidFile(f"{options.file}: {error}") from error
    if options.all:
        story = Story(options)
        for change in changes(recording, until):
            story.tell(change.observation, prefix=f"{change.t:8.1f} s  ")
    else:
        _show_end(options, recording, until)
    return Exit.DONE


def _show_end(options: argparse.Namespace, recording: Recording, until: float) -> None:
    played = replay(recording, until)
    for each in played.odd:
        note(f"{options.file}: {each}")
    show(options, observations(played.store, recording.clock(until)))
