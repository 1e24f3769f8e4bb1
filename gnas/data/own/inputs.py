"""Which columns of raw graphs become input: those of edges, and positions, as the data options ``edges`` and ``pos`` say."""

from __future__ import annotations

import dataclasses

from gnas.data.encoding import Encoding, format_list
from gnas.data.own.options import LoadOptions, use_edges
from gnas.data.own.raw import RawGraphs, name_columns
from gnas.errors import InputError
from gnas.printed import format_count


def select_inputs(raw: RawGraphs, options: LoadOptions) -> RawGraphs:
    """The columns that the options choose; the others are named as left out."""
    if raw.edges and not use_edges(options.edges):
        unused = f"{format_count(len(raw.edges), 'edge column')} ({format_list(list(raw.edges))}): edges=none"
        raw = dataclasses.replace(raw, edges={}, left_out=(*raw.left_out, unused))
    if options.edges in (True, "yes") and not raw.edges:
        raise InputError("edges is yes, but the edges have no columns; leave the data option edges out")
    if options.pos:
        if raw.pos is None:
            raise InputError("pos is yes, but the graphs have no positions; leave the data option pos out")
        raw = _with_positions(raw)
    return raw


def add_inputs(raw: RawGraphs, encoding: Encoding) -> RawGraphs:
    """New graphs with their positions among the node columns, if the encoding has them there."""
    names = {column.name for column in encoding.nodes}
    wanted = raw.pos is not None and names.issuperset(name_columns("pos", raw.pos)) and not names <= set(raw.nodes)
    return _with_positions(raw) if wanted else raw


def _with_positions(raw: RawGraphs) -> RawGraphs:
    assert raw.pos is not None
    return dataclasses.replace(raw, nodes={**raw.nodes, **name_columns("pos", raw.pos)})
