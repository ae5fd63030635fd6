"""Warnings that are not about what is tested: of Lightning and its dependencies, and of few sentences."""

IGNORED_WARNINGS = [
    "ignore:.*does not have many workers",
    "ignore:.*isinstance\\(treespec, LeafSpec\\)",
    "ignore:.*[Tt]ensorboard.*",
    "ignore:.*Using `DistributedSampler` with the dataloaders",
    "ignore:.*The number of training batches",
    "ignore:.*[`']pin_memory[`']",
    "ignore:Be aware that when using `ckpt_path`",
    "ignore:Guards may run slower on Python 3.13.0",
    "ignore:With \\d+ sentences?, a paired bootstrap",
]
