"""Compiles every Triton kernel that a search step and a training step start, for a GPU that need not be there.

Run by test_kernels_compile.py in a process of its own. A launch compiles and does not run: what the kernels would have written
stays as it was allocated, and the steps go on with that. Prints the kernels compiled, one per line.
"""

import dataclasses
import os

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

os.environ["GNAS_FUSED"] = os.environ["GNAS_AGGREGATE"] = "triton"

import gnas
from gnas.arch.genotype import Genotype
from gnas.arch.graphnas import GraphNASArchitecture, LayerChoice
from gnas.kernels import fused
from gnas.model import baselines
from gnas.model.build import build_network
from gnas.model.supernet import Supernet
from gnas.training.optim import clip_and_step, make_adam
from gnas.training.store import GraphStore

H100 = GPUTarget("cuda", 90, 32)
POINTERS = {
    torch.float32: "*fp32",
    torch.bfloat16: "*bf16",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.bool: "*i1",
}
OPTIONS = ("num_warps", "num_stages")
compiled: dict[tuple[str, str, str], str] = {}


def launch(kernel: JITFunction, *args: object, grid: object, warmup: bool = False, **told: object) -> None:
    """What a launch compiles for these arguments."""
    names = [one.name for one in kernel.params]
    given = dict(zip(names, args, strict=False)) | {name: value for name, value in told.items() if name in names}
    kinds, fixed = {}, {}
    for place, one in enumerate(kernel.params):
        value = given[one.name]
        if one.is_constexpr or value is None:
            kinds[one.name], fixed[(place,)] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            kinds[one.name] = POINTERS[value.dtype]
        else:
            kinds[one.name] = "i32" if isinstance(value, int) else "fp32"
    key = (kernel.fn.__qualname__, str(kinds), str(fixed))
    if key not in compiled:
        options = {name: value for name, value in told.items() if name in OPTIONS}
        made = triton.compile(ASTSource(kernel, kinds, fixed), target=H100, options=options)
        compiled[key] = f"{key[0]} {len(made.asm['ptx'])}"


def main() -> None:
    JITFunction.run = launch
    benchmark = gnas.load("pattern-mini")
    batch = benchmark.train.select(range(4)).batch()
    batch = dataclasses.replace(batch, node_mask=torch.ones(batch.num_nodes, dtype=torch.bool))
    space = gnas.SearchSpace()
    supernet = Supernet(space, benchmark.task, 16, 1)
    several = Supernet(space, benchmark.task, 80, 1)  # two blocks of channels
    cells = [
        gnas.arch.gap.genotype(text)[0] for text in ("[dense(sum#1(sparse)) | sum#1(sparse)]", "[sparse(max) | mean]")
    ]
    network = gnas.Network(Genotype(tuple(cells)), benchmark.task, 16)
    hand_made = [baselines.build_baseline(name, benchmark.task, num_layers=2) for name in ("gat", "monet", "gatedgcn")]
    layers = [LayerChoice(attention, "sum", "elu", 2, 8) for attention in ("gene_linear", "cos")]
    rival = build_network(GraphNASArchitecture(tuple(layers)), benchmark.task)
    for model in (supernet, several, network, *hand_made, rival):
        out = model.train()(batch)
        out.square().sum().backward()
        with torch.no_grad():
            model.eval()(batch)
    store = GraphStore(benchmark.train.select(range(4)))
    planned = store.plan(2, padded=True)[0]
    store._layout(planned.ids, planned.capacity)
    task = dataclasses.replace(benchmark.task, edge_categories=(3,), walks=4, edge_walks=4)
    edges = torch.zeros(batch.neighbors.source.numel(), 1, dtype=torch.long)
    pe = {"node_pe": torch.rand(batch.num_nodes, 4), "edge_pe": torch.rand(len(edges), 4)}
    rich = dataclasses.replace(batch, edge_attr=edges, **pe)
    for name, dropout in (("gin+", 0.0), ("gatedgcn+", 0.1), ("pna+", 0.0)):
        model = baselines.build_recipe(name, task, 66, 2, dropout)
        model.train()(rich).square().sum().backward()
    for decoupled in (False, True):
        optimizer = make_adam(model.parameters(), 0.1, 0.0, torch.device("cpu"), decoupled=decoupled)
        clip_and_step(optimizer, model.parameters(), 1.0)
        clip_and_step(optimizer, model.parameters(), 0.0)
    fused.product(
        torch.randn(2, 4096, 16, requires_grad=True), torch.randn(2, 16, 16, requires_grad=True)
    ).sum().backward()
    print("\n".join(sorted(compiled.values())))


main()
