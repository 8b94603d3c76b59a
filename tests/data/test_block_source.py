"""Results of blocks are merged in an order that depends on their number alone."""

import pytest

from amofa._data.block_source import Tree, groups, merged


def in_layers(values, merge):
    while len(values) > 1:
        values = [merged(group, merge) for group in groups(values)]
    return values[0]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 63, 64, 65, 72, 520])
def test_tree_merges_layer_by_layer(n):
    def merge(a, b):
        return f"({a} {b})"

    tree = Tree(merge)
    for i in range(n):
        tree.add(str(i))
    assert tree.result() == in_layers([str(i) for i in range(n)], merge)
