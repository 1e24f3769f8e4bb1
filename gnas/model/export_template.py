"""The text of an exported module as Jinja templates. ``export_code`` fills them in."""

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
    """What each node receives from the nodes that point to it; zeros if there are none."""
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
{% if ffn %}
class FeedForward(nn.Module):
    """What follows a cell: two linear layers, added to their input{{ ", and batch norm" if norm }}."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Linear(channels, 2 * channels)
        self.second = nn.Linear(2 * channels, channels)
{% if norm %}
        self.norm = nn.BatchNorm1d(channels)
{% endif %}

    def forward(self, h: Tensor) -> Tensor:
{% if dropout %}
        hidden = F.dropout(F.relu(self.first(h)), {{ dropout }}, self.training)
        out = h + F.dropout(self.second(hidden), {{ dropout }}, self.training)
{% else %}
        out = h + self.second(F.relu(self.first(h)))
{% endif %}
        return {{ "self.norm(out)" if norm else "out" }}


{% endif %}
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
{% if readout == "mean_max" %}
        h = torch.cat([scatter(h, batch, reduce="mean"), scatter(h, batch, reduce="max")], dim=1)
{% else %}
        h = scatter(h, batch, reduce="{{ readout }}")
{% endif %}
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
