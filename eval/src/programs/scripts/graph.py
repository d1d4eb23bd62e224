"""Searches in a graph, with igraph: graph.py NAME MIB.

The graph grows by preferential attachment, so it is connected and a few vertices have many
neighbours. All vertices are ranked once (PageRank), before the load: the sum of ranks must be 1,
and they are kept. A step is a breadth-first search from a random vertex, which must reach all.
"""

import random
import sys

import igraph

from steps import serve, steps

# Of an edge in igraph's lists and indexes, in bytes.
EDGE = 32
EDGES_PER_VERTEX = 8

random.seed(1)
n = (int(sys.argv[2]) << 20) // EDGE // EDGES_PER_VERTEX
graph = igraph.Graph.Barabasi(n, EDGES_PER_VERTEX)
ranks = graph.pagerank()
assert len(ranks) == n and abs(sum(ranks) - 1) < 1e-6, sum(ranks)


def step():
    depths = graph.distances(source=[random.randrange(n)])[0]
    assert len(depths) == n and max(depths) < 20, max(depths)


serve(lambda seconds: steps(seconds, step))
