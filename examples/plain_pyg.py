"""The network found, as an ordinary module in an ordinary PyG training loop.

Run: python examples/plain_pyg.py
"""

import torch
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

import gnas


def rings(count: int) -> list[Data]:
    """Rings of 4 to 9 nodes; the target is how many neighbours of a marked node are marked, on average."""
    graphs = []
    for number in range(count):
        nodes = 4 + number % 6
        ring = torch.arange(nodes)
        edges = torch.stack([torch.cat([ring, ring.roll(1)]), torch.cat([ring.roll(1), ring])])
        mark = torch.rand(nodes).lt(0.5).float()
        both = (mark * (mark.roll(1) + mark.roll(-1))).sum() / nodes
        graphs.append(Data(x=torch.stack([mark, torch.rand(nodes)], dim=1), edge_index=edges, y=both.reshape(1)))
    return graphs


torch.manual_seed(0)
graphs = rings(240)
benchmark = gnas.load(graphs, name="rings", standardise=False)
result = gnas.search(
    benchmark, strategy=gnas.SingleLevel(epochs=4, batch_size=16, alpha_lr=1e-2, lr=0.1), channels=16, num_cells=2
)
result.genotype.save("rings.yaml")  # all that the search leaves; the rest is PyTorch as you know it

network = gnas.Network(gnas.load_genotype("rings.yaml"), benchmark.task, channels=16)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
losses = []
for _ in range(12):
    for batch in DataLoader(graphs[:200], batch_size=32, shuffle=True):
        out = network(batch.x, batch.edge_index, batch.batch)
        loss = F.l1_loss(out.squeeze(-1), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    losses.append(loss.item())

network.eval()
with torch.no_grad():
    batch = next(iter(DataLoader(graphs[200:], batch_size=40)))
    error = F.l1_loss(network(batch.x, batch.edge_index, batch.batch).squeeze(-1), batch.y)
print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}; mean absolute error on the 40 left out {error:.3f}")
