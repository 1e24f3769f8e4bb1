"""How deep a network do these graphs need? The paper's Algorithm 1, round by round.

Run: python examples/depth.py
"""

import gnas

benchmark = gnas.load("molecules-mini")
space = gnas.SearchSpace(nodes=2, outputs=2)
strategy = gnas.SingleLevel(epochs=6, batch_size=16, alpha_lr=1e-2, lr=0.1)
result = gnas.search_depth(benchmark, space, strategy, channels=8, limit=4, folder="runs/depth", force=True)

print(f"average diameter {result.diameter}; depth {' -> '.join(map(str, result.trajectory))} ({result.reason})")
for number, taken in enumerate(result.rounds, start=1):
    print(f"round {number}: {taken.initial} cells, of which {taken.searched} aggregate; MAE {taken.val_metric:.3f}")
network = gnas.Network(result.genotype, benchmark.task, channels=8)
print(network.num_weights(), "weights")
