"""The text of an exported module as Jinja templates. ``export_code`` fills them in."""

HEAD = '''\
"""{{ about }}

To use it::

    from model import load

    model = load()
    out = model(data.x, data.edge_index{% for name in given.names() %}, data.{{ name }}{% endfor %})

It needs torch and safetensors.
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
{% if uses_scatter %}
def scatter(values: Tensor, index: Tensor, dim_size: int | None = None, reduce: str = "sum") -> Tensor:
    """The rows of ``values`` with the same ``index`` together; zeros where there are none."""
    count = index.max().item() + 1 if dim_size is None else dim_size
    torch._check(count >= 0)  # torch.export cannot know it
    shape = (count, *values.shape[1:])
    if reduce == "max":
        places = index.reshape(-1, *[1] * (values.dim() - 1)).expand_as(values)
        found = values.new_full(shape, -torch.inf).scatter_reduce(0, places, values, "amax")
        return found.masked_fill(found == -torch.inf, 0.0)
    total = values.new_zeros(shape).index_add(0, index, values)
    if reduce == "sum":
        return total
    number = values.new_zeros(count).index_add(0, index, torch.ones_like(index).to(values)).clamp(min=1)
    return total / number.reshape(-1, *[1] * (values.dim() - 1))


{% endif %}
{% if "softmax(" in steps %}
def softmax(score: Tensor, index: Tensor, num_nodes: int) -> Tensor:
    """Shares of the rows with the same ``index``, which add up to 1."""
    weight = (score - scatter(score.detach(), index, num_nodes, "max")[index]).exp()
    return weight / (scatter(weight, index, num_nodes)[index] + 1e-16)


{% endif %}
{% if "aggregate(" in steps or propagation or convolved %}
def aggregate(h: Tensor, edge_index: Tensor, reduce: str) -> Tensor:
    """What each node receives from the nodes that point to it; zeros if there are none."""
    source, target = edge_index
    return scatter(h[source], target, dim_size=h.size(0), reduce=reduce)


{% endif %}
{% if "receive(" in steps %}
def receive(messages: Tensor, edge_index: Tensor, count: int, reduce: str) -> Tensor:
    """What each node receives of the messages on the edges that lead to it; zeros if there are none."""
    return scatter(messages, edge_index[1], dim_size=count, reduce=reduce)


{% endif %}
{% if "receive_symmetric(" in steps %}
def receive_symmetric(messages: Tensor, edge_index: Tensor, count: int) -> Tensor:
    """The sum of the messages to each node, scaled by the degrees at both ends: GCN's."""
    source, target = edge_index
    one = torch.ones_like(messages[:, :1])
    sent = scatter(one, source, dim_size=count, reduce="sum").clamp(min=1).rsqrt()
    received = scatter(one, target, dim_size=count, reduce="sum").clamp(min=1).rsqrt()
    return scatter(messages * sent[source], target, dim_size=count, reduce="sum") * received


{% endif %}
{% if "receive_std(" in steps %}
def receive_std(messages: Tensor, edge_index: Tensor, count: int) -> Tensor:
    """The standard deviation of the messages to each node; small ones are 0."""
    squares = scatter(messages.square(), edge_index[1], dim_size=count, reduce="mean")
    variance = squares - scatter(messages, edge_index[1], dim_size=count, reduce="mean").square()
    return variance.clamp(min=1e-5).sqrt().masked_fill(variance <= 1e-5, 0.0)


{% endif %}
{% if given.structure %}
def measures({{ measured | replace(",", ": Tensor,") }}: Tensor, count: int) -> Tensor:
    """Counted for each node, standardised as in training: {{ measure_words }}."""
{% if "size" in given.structure %}
    size = scatter(torch.ones_like(batch), batch, reduce="sum")[batch]
{% endif %}
{% if "degree" in given.structure %}
    degree = scatter(torch.ones_like(edge_index[1]), edge_index[1], dim_size=count, reduce="sum")
{% endif %}
    counts = torch.stack([{{ given.structure | join(", ") }}], dim=1).double()
    return (counts.log1p() - counts.new_tensor(MEASURE_CENTER)) / counts.new_tensor(MEASURE_SCALE)


{% endif %}
{% if given.walks or given.edge_walks %}
@torch.no_grad()
def walks(edge_index: Tensor, batch: Tensor, start: Tensor, end: Tensor, steps: int) -> Tensor:
    """How likely a random walk along the edges goes from start to end in 1, 2, ... steps, computed in float64.

    Row i of ``reached`` has a column for each node of the graph of i, a block of columns at a time.
    """
    size = scatter(torch.ones_like(batch), batch, reduce="sum")
    place = torch.arange(len(batch), device=batch.device) - (size.cumsum(0) - size)[batch]
    found = torch.zeros(len(start), steps, device=batch.device)
    largest = int(size.max()) if len(batch) else 0
    width = min(max(largest, 1), max(8, 2**22 // max(edge_index.size(1), 1)))
    for first in range(0, largest, width):
        columns = torch.arange(first, first + width, device=batch.device)
        reached = (place[:, None] == columns).double()
        here = (place[end] >= first) & (place[end] < first + width)
        for step in range(steps):
            reached = scatter(reached[edge_index[1]], edge_index[0], dim_size=len(batch), reduce="mean")
            found[here, step] = reached[start[here], place[end[here]] - first].float()
    return found


{% endif %}
{% if given.laplacian %}
@torch.no_grad()
def eigenvectors(edge_index: Tensor, batch: Tensor, count: int) -> Tensor:
    """Eigenvectors 2, 3, ... of the normalised Laplacian of each graph as columns; zeros where a graph has fewer.

    Fixed weights of the nodes decide the sign of a vector, and between vectors of one eigenvalue.
    """
    found = torch.zeros(len(batch), count, device=batch.device)
    for graph in batch.unique():
        nodes = (batch == graph).nonzero()[:, 0]
        source, target = edge_index[:, batch[edge_index[0]] == graph] - nodes[0]
        adjacency = torch.zeros(len(nodes), len(nodes), dtype=torch.float64, device=batch.device)
        adjacency.index_put_((source, target), adjacency.new_ones(len(source)), accumulate=True)
        adjacency = (adjacency + adjacency.T) / 2
        adjacency.fill_diagonal_(0)
        scale = adjacency.sum(1).rsqrt()
        scale = scale.masked_fill(scale.isinf(), 0)
        weights = torch.arange(1, len(nodes) + 1, dtype=torch.float64, device=batch.device) * 0.6180339887498949 % 1
        laplacian = torch.diag(1 + 1e-6 * weights) - scale[:, None] * adjacency * scale
        vectors = torch.linalg.eigh(laplacian).eigenvectors[:, 1 : count + 1]
        vectors = vectors * torch.where(weights @ vectors < 0, -1.0, 1.0)
        found[nodes, : vectors.size(1)] = vectors.float()
    return found


{% endif %}
{% if "self.transform(" in steps %}
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

    def forward(self, {{ one.arguments }}) -> Tensor:
{% for line in one.steps %}
        {{ line }}
{% endfor %}


{% endfor %}
{% if "self.relation(" in steps %}
class Relation(nn.Module):
    """What an edge knows, in each cell: a linear map of its two ends{{ " and its state" if given.edge_state }}."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.nodes = nn.Linear(channels, 2 * channels)
{% if given.edge_state %}
        self.edges = nn.Linear(channels, channels, bias=False)
{% endif %}

    def forward(self, x: Tensor, edge_index: Tensor{{ ", e: Tensor" if given.edge_state }}) -> Tensor:
        source, target = edge_index
        receiver, sender = self.nodes(x).chunk(2, dim=1)
        return receiver[target] + sender[source]{{ " + self.edges(e)" if given.edge_state }}


{% endif %}
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
{% if "convolve(" in steps or convolved %}
def convolve(h: Tensor, edge_index: Tensor) -> Tensor:
    """The sum over neighbours and the node itself, divided by the roots of both degrees: GCN with self loops."""
    one = torch.ones_like(h[:, :1])
    sent = (aggregate(one, edge_index.flip(0), "sum") + 1).rsqrt()
    received = (aggregate(one, edge_index, "sum") + 1).rsqrt()
    message = h * sent
    return (aggregate(message, edge_index, "sum") + message) * received


{% endif %}
{% if propagation %}
def propagate(out: Tensor, edge_index: Tensor) -> Tensor:
    """Outputs of nodes, spread over the graph: personalised PageRank."""
    one = torch.ones_like(out[:, :1])
    sent = (aggregate(one, edge_index.flip(0), "sum") + 1).rsqrt()
    received = (aggregate(one, edge_index, "sum") + 1).rsqrt()
    spread = out
    for _ in range({{ propagation }}):
        message = spread * sent
        spread = {{ 1 - teleport }} * (aggregate(message, edge_index, "sum") + message) * received + {{ teleport }} * out
    return spread


{% endif %}
{% for cell in cells %}
class {{ cell.name }}(nn.Module):
    """{{ cell.doc }}"""

    def __init__(self, channels: int) -> None:
        super().__init__()
{% for line in cell.layers %}
        {{ line }}
{% endfor %}

    def forward(self, {{ cell.arguments }}) -> {{ cell.returns }}:
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
{% if given.structure %}
        self.measured = nn.Linear({{ given.structure | length }}, {{ channels }}, bias=False)
{% endif %}
{% if task.categories | length > 1 %}
        # One table for all input columns: each begins where the one before it ends.
        self.register_buffer("offsets", torch.tensor({{ offsets }}), persistent=False)
{% endif %}
{% if given.walks %}
        self.walk_norm = nn.BatchNorm1d({{ given.walks }})
{% endif %}
{% if given.walks or given.laplacian %}
        self.position = nn.Linear({{ given.walks + given.laplacian }}, {{ channels }}, bias=False)
{% endif %}
{% if given.edge_categories %}
        self.edge_encoder = nn.Embedding({{ given.edge_categories | sum }}, {{ channels }})
{% if given.edge_categories | length > 1 %}
        self.register_buffer("edge_offsets", torch.tensor({{ edge_offsets }}), persistent=False)
{% endif %}
{% elif given.edge_channels %}
        self.edge_encoder = nn.Linear({{ given.edge_channels }}, {{ channels }})
{% elif given.edge_state and not given.edge_walks %}
        self.edge_encoder = nn.Linear(1, {{ channels }})  # all edges begin with the same state
{% endif %}
{% if given.edge_walks %}
        self.edge_walk_norm = nn.BatchNorm1d({{ given.edge_walks }})
        self.edge_position = nn.Linear({{ given.edge_walks }}, {{ channels }}, bias=False)
{% endif %}
{% for name, out, reads in stack %}
        self.{{ part }}_{{ loop.index }} = {{ name }}({{ channels }})
{% endfor %}
{% if each_is_read %}
        # One map for the input of the layers, and one for the output of each.
        self.head = nn.ModuleList(
            [
{% for line in head %}
                {{ line }},
{% endfor %}
            ]
        )
{% else %}
        self.head = nn.Sequential(
{% for line in head %}
            {{ line }},
{% endfor %}
        )
{% endif %}

{% if given.encodings() %}
    @torch.no_grad()
    def encodings(self, edge_index: Tensor, batch: Tensor) -> dict[str, Tensor]:
        """What is computed of the edges alone. ``forward`` computes it, unless all of it is given."""
{% if given.walks %}
        nodes = torch.arange(batch.size(0), device=batch.device)
{% endif %}
        return {
{% if given.walks %}
            "node_walks": walks(edge_index, batch, nodes, nodes, {{ given.walks }}),
{% endif %}
{% if given.laplacian %}
            "laplacian": eigenvectors(edge_index, batch, {{ given.laplacian }}),
{% endif %}
{% if given.edge_walks %}
            "edge_walks": walks(edge_index, batch, edge_index[0], edge_index[1], {{ given.edge_walks }}),
{% endif %}
        }

{% endif %}
{% if arguments | length > 1 or arguments[0] | length > 89 %}
    def forward(
{% for line in arguments %}
        {{ line }}
{% endfor %}
    ) -> Tensor:
{% else %}
    def forward({{ arguments[0] }}) -> Tensor:
{% endif %}
        """{{ output }}"""
{% if not task.categories %}
        h = self.encoder(x.reshape(x.size(0), {{ task.in_channels }}).to(self.encoder.weight))
{% elif task.categories | length == 1 %}
        h = self.encoder(x.reshape(x.size(0)).long())
{% else %}
        h = self.encoder(x.reshape(x.size(0), {{ task.categories | length }}).long() + self.offsets).sum(dim=1)
{% endif %}
{% if given.needs_batch %}
        batch = edge_index.new_zeros(x.size(0)) if batch is None else batch
{% endif %}
{% if given.structure %}
        h = h + self.measured(measures({{ measured }}, x.size(0)).to(h))
{% endif %}
{% if given.encodings() %}
        if {{ given.encodings()[0] }} is None:
            found = self.encodings(edge_index, batch)
{% for name in given.encodings() %}
            {{ name }} = found["{{ name }}"]
{% endfor %}
{% endif %}
{% if given.walks or given.laplacian %}
{% if given.walks %}
        returned = self.walk_norm(node_walks.to(h))
{% endif %}
{% if given.laplacian %}
        vectors = laplacian.to(h)
        if self.training:  # the sign of an eigenvector is arbitrary
            signs = torch.randint(0, 2, (int(batch.max()) + 1, {{ given.laplacian }}), device=h.device) * 2 - 1
            vectors = vectors * signs[batch]
{% endif %}
{% if given.walks and given.laplacian %}
        h = h + self.position(torch.cat([returned, vectors], dim=1))
{% else %}
        h = h + self.position({{ "returned" if given.walks else "vectors" }})
{% endif %}
{% endif %}
{% if given.edge_columns %}
        if edge_attr is None:
            raise ValueError("this network reads edge_attr: [edges, {{ given.edge_columns }}]")
{% if given.edge_channels %}
        e = self.edge_encoder(edge_attr.reshape(edge_index.size(1), {{ given.edge_channels }}).to(h))
{% elif given.edge_columns == 1 %}
        e = self.edge_encoder(edge_attr.reshape(edge_index.size(1)).long())
{% else %}
        rows = edge_attr.reshape(edge_index.size(1), {{ given.edge_columns }}).long() + self.edge_offsets
        e = self.edge_encoder(rows).sum(dim=1)
{% endif %}
{% elif given.edge_state and not given.edge_walks %}
        e = self.edge_encoder(h.new_ones(1, 1))
{% endif %}
{% if given.edge_walks %}
        e = {{ "e + " if given.edge_columns }}self.edge_position(self.edge_walk_norm(edge_walks.to(h)))
{% endif %}
{% for line in before %}
        {{ line }}
{% endfor %}
{% if each_is_read %}
        hidden = [h]
{% endif %}
{% for name, out, reads in stack %}
        {{ out }} = self.{{ part }}_{{ loop.index }}(h{{ ", " if reads }}{{ reads }})
{% if each_is_read %}
        hidden.append(h)
{% endif %}
{% endfor %}
{% if given.graph_channels %}
        if graph_attr is None:
            raise ValueError("this network reads graph_attr: [graphs, {{ given.graph_channels }}]")
        graph_attr = graph_attr.reshape(-1, {{ given.graph_channels }}).to(h)
{% endif %}
{% set read %}
{% if task.level == "graph" %}
{% set count = "" %}
{% if given.graph_channels %}
{% set count = "graph_attr.size(0), " %}
{% endif %}
{% if readout == "mean_max" %}
        pools = [scatter(h, batch, {{ count }}reduce=reduce) for reduce in ("mean", "max")]
        h = torch.cat(pools, dim=1)
{% else %}
        h = scatter(h, batch, {{ count }}reduce="{{ readout }}")
{% endif %}
{% if given.graph_channels %}
        h = torch.cat([h, graph_attr], dim=1)
{% endif %}
{% elif task.level == "edge" %}
        source, target = edge_index
        h = torch.cat([h[source], h[target]], dim=1)
{% elif task.level == "link" %}
        first, second = h[edge_label_index[0]], h[edge_label_index[1]]
{% if task.undirected %}
        h = torch.cat([first * second, (first - second).abs()], dim=1)
{% else %}
        h = torch.cat([first, second, first * second], dim=1)
{% endif %}
{% endif %}
{% endset %}
{% set value = "self.head(h)" %}
{% if each_is_read %}
        scores = []
        for h, linear in zip(hidden, self.head, strict=True):
{{ (read ~ "        scores.append(linear(h))") | indent(4, true) }}
{% set value = "torch.stack(scores).sum(dim=0)" %}
{% else %}
{{ read }}{% endif %}
{% if propagation or convolved %}
{% set value = ("propagate" if propagation else "convolve") ~ "(self.head(h), edge_index)" %}
{% endif %}
{% if factors %}
        out = {{ value }}
        return out * {{ factors[0] }} + {{ factors[1] }}
{% else %}
        return {{ value }}
{% endif %}


def load(folder: str | Path = HERE) -> Model:
    """The trained network, ready to predict; ``folder`` holds weights.safetensors."""
    model = Model()
    model.load_state_dict(load_file(Path(folder) / "weights.safetensors"))
    return model.eval()
'''

ENSEMBLE_SOURCE = '''\
"""<ABOUT>

To use it::

    from model import load

    model = load()
    out = model(data.x, data.edge_index<CALL>)

It needs torch and safetensors. Each folder member_N holds one network.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

HERE = Path(__file__).parent
SHARES = <SHARES>  # of the members in the mean
READS = <READS>  # what each member reads beside x and edge_index


class Model(nn.Module):
    """Networks that vote: the weighted mean of their probabilities, or of their predicted values."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def each(self, x: Tensor, edge_index: Tensor<MORE>) -> Tensor:
        """What each member predicts: [members, rows, outputs]."""
        given = {<GIVEN>}
        values = []
        for member, names in zip(self.members, READS):
            out = member(x, edge_index, **{name: given[name] for name in names})
            values.append(<VALUES>)
        return torch.stack(values)

    def average(self, values: Tensor) -> Tensor:
        return torch.einsum("m,m...->...", values.new_tensor(SHARES), values)

    def forward(self, x: Tensor, edge_index: Tensor<MORE>) -> Tensor:
        mean = self.average(self.each(x, edge_index<PASSED>))
        return <OUTPUT>

    def spread(self, x: Tensor, edge_index: Tensor<MORE>) -> Tensor:
        """The standard deviation over the members."""
        values = self.each(x, edge_index<PASSED>)
        return self.average((values - self.average(values)).square()).sqrt()
<ENCODINGS>

def load(folder: str | Path = HERE) -> Model:
    """The ensemble, ready to predict; ``folder`` holds a folder for each member."""
    return Model([_load_member(Path(folder) / f"member_{k}") for k in range(1, len(SHARES) + 1)]).eval()


def _load_member(folder: Path) -> nn.Module:
    spec = importlib.util.spec_from_file_location(f"{__name__}_{folder.name}", folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(folder)
'''

ENSEMBLE_ENCODINGS = '''
    def encodings(self, edge_index: Tensor, batch: Tensor) -> dict[str, Tensor]:
        """What is computed of the edges alone, for all members. ``forward`` computes it, unless all of it is given."""
        found: dict[str, Tensor] = {}
        for member in self.members:
            found |= member.encodings(edge_index, batch) if hasattr(member, "encodings") else {}
        return found
'''
