"""The text of an exported module: a template, and the code of each operation. ``export_code`` puts them together."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gnas.model.operations import Variant


@dataclass(frozen=True)
class Formula:
    """One operation: its layers, what it reads beside ``h``, what it computes first, and its value."""

    doc: str
    layers: tuple[str, ...] = ()
    reads: str = ""
    steps: tuple[str, ...] = ()
    value: str = "h"


_GATE = "gate = torch.sigmoid(self.gate(torch.cat([h, x], dim=1)))"
_SPARSE = "Sparse filter: one gate for each node, from the node and the cell's input x."
_DENSE = "Dense filter: one gate for each node and channel, from the node and the cell's input x."
FORMULAS = {
    "identity": Formula("Identity filter: nothing but the transform."),
    "sparse": Formula(_SPARSE, ("self.gate = nn.Linear(2 * channels, 1)",), "x", (_GATE,), "gate * h"),
    "dense": Formula(_DENSE, ("self.gate = nn.Linear(2 * channels, channels)",), "x", (_GATE,), "gate * h"),
    "sum": Formula("The sum over neighbours.", reads="edge_index", value='aggregate(h, edge_index, "sum")'),
    "mean": Formula("The mean over neighbours.", reads="edge_index", value='aggregate(h, edge_index, "mean")'),
    "max": Formula("The maximum over neighbours.", reads="edge_index", value='aggregate(h, edge_index, "max")'),
    "symmetric": Formula(
        "The sum over neighbours, scaled by the degrees at both ends: GCN's.",
        reads="edge_index",
        steps=(
            "one = torch.ones_like(h[:, :1])",
            'sent = aggregate(one, edge_index.flip(0), "sum").clamp(min=1).rsqrt()',
            'received = aggregate(one, edge_index, "sum").clamp(min=1).rsqrt()',
        ),
        value='aggregate(h * sent, edge_index, "sum") * received',
    ),
}
_HIDDEN_GATE = Formula(
    _SPARSE,
    ("self.gate = nn.Linear(2 * channels, channels)", "self.last = nn.Linear(channels, 1, bias=False)"),
    "x",
    ("hidden = F.relu(self.gate(torch.cat([h, x], dim=1)))", "gate = torch.sigmoid(self.last(hidden))"),
    "gate * h",
)


def formula(operation: str, kind: Variant) -> Formula:
    """The code of an operation in this variant of the modules."""
    plain = FORMULAS[operation]
    if operation == "sparse" and kind.hidden_gate:
        return _HIDDEN_GATE
    if operation in ("mean", "max") and kind.transform_messages:
        value = f'aggregate(F.relu(self.message(h)), edge_index, "{operation}")'
        return replace(plain, layers=("self.message = nn.Linear(channels, channels)",), value=value)
    return plain


HEAD = '''\
"""{{ about }}

To use it::

    from model import load

    model = load()
    out = model(data.x, data.edge_index{{ ", data.batch" if task.needs_batch }})

It needs torch, torch-geometric and safetensors.
"""

from __future__ import annotations

from pathlib import Path

{% for line in imports %}
{{ line }}
{% endfor %}

HERE = Path(__file__).parent
{% for line in constants %}
{{ line }}
{% endfor %}


'''

BODY = '''\
{% if aggregates %}
def aggregate(h: Tensor, edge_index: Tensor, reduce: str) -> Tensor:
    """What each node gets from the nodes that point to it; zeros if there are none."""
    source, target = edge_index
    return scatter(h[source], target, dim_size=h.size(0), reduce=reduce)


{% endif %}
{% if task.structure %}
def measures({{ measured | replace(",", ": Tensor,") }}: Tensor, count: int) -> Tensor:
    """Counted for each node, standardised as in training: {{ measure_words }}."""
{% if "size" in task.structure %}
    size = scatter(torch.ones_like(batch), batch, reduce="sum")[batch]
{% endif %}
{% if "degree" in task.structure %}
    degree = scatter(torch.ones_like(edge_index[1]), edge_index[1], dim_size=count, reduce="sum")
{% endif %}
    counts = torch.stack([{{ task.structure | join(", ") }}], dim=1).double()
    return (counts.log1p() - counts.new_tensor(MEASURE_CENTER)) / counts.new_tensor(MEASURE_SCALE)


{% endif %}
{% if transforms %}
class Transform(nn.Module):
    """What follows an operation: linear map, {{ "batch norm, " if norm }}ReLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels{{ ", bias=False" if norm }})
{% if norm %}
        self.norm = nn.BatchNorm1d(channels)
{% endif %}

    def forward(self, h: Tensor) -> Tensor:
        return F.relu({{ "self.norm(self.linear(h))" if norm else "self.linear(h)" }})


{% endif %}
{% for one in operations %}
class {{ one.name }}(nn.Module):
    """{{ one.doc }}"""

    def __init__(self, channels: int) -> None:
        super().__init__()
{% for line in one.layers %}
        {{ line }}
{% endfor %}

    def forward(self, {{ one.reads }}) -> Tensor:
{% for line in one.steps %}
        {{ line }}
{% endfor %}


{% endfor %}
{% for cell in cells %}
class {{ cell.name }}(nn.Module):
    """{{ cell.doc }}"""

    def __init__(self, channels: int) -> None:
        super().__init__()
{% for line in cell.layers %}
        {{ line }}
{% endfor %}

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
{% for line in cell.steps %}
        {{ line }}
{% endfor %}


{% endfor %}
class Model(nn.Module):
    """{{ summary }}"""

    def __init__(self) -> None:
        super().__init__()
{% if not task.categories %}
        self.encoder = nn.Linear({{ task.in_channels }}, {{ channels }})
{% else %}
        self.encoder = nn.Embedding({{ task.categories | sum }}, {{ channels }})
{% endif %}
{% if task.structure %}
        self.measured = nn.Linear({{ task.structure | length }}, {{ channels }}, bias=False)
{% endif %}
{% if task.categories | length > 1 %}
        # One table for all input columns: each begins where the one before it ends.
        self.register_buffer("offsets", torch.tensor({{ offsets }}), persistent=False)
{% endif %}
{% for name in stack %}
        self.cell_{{ loop.index }} = {{ name }}({{ channels }})
{% endfor %}
        self.head = nn.Sequential(
{% for line in head %}
            {{ line }},
{% endfor %}
        )

    def forward(self, x: Tensor, edge_index: Tensor{{ ", batch: Tensor | None = None" if task.needs_batch }}) -> Tensor:
        """{{ output }}"""
{% if not task.categories %}
        h = self.encoder(x.reshape(len(x), {{ task.in_channels }}).to(self.encoder.weight))
{% elif task.categories | length == 1 %}
        h = self.encoder(x.reshape(len(x)).long())
{% else %}
        h = self.encoder(x.reshape(len(x), {{ task.categories | length }}).long() + self.offsets).sum(dim=1)
{% endif %}
{% if task.needs_batch %}
        batch = edge_index.new_zeros(len(x)) if batch is None else batch
{% endif %}
{% if task.structure %}
        h = h + self.measured(measures({{ measured }}, len(x)).to(h))
{% endif %}
{% for name in stack %}
        h = self.cell_{{ loop.index }}(h, edge_index)
{% endfor %}
{% if task.level == "graph" %}
        h = scatter(h, batch, reduce="{{ task.readout }}")
{% elif task.level == "edge" %}
        source, target = edge_index
        h = torch.cat([h[source], h[target]], dim=1)
{% endif %}
{% if factors %}
        out = self.head(h)
        return out * {{ factors[0] }} + {{ factors[1] }}
{% else %}
        return self.head(h)
{% endif %}


def load(folder: str | Path = HERE) -> Model:
    """The trained network, ready to predict; ``folder`` holds weights.safetensors."""
    model = Model()
    model.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return model.eval()
'''
