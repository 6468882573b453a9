"""Lets SGLang, which is made for GPUs, run on a CPU for tests: on the path of its processes, Python runs this first.

torchvision's build for GPUs registers operators that torch's build for CPUs does not have: they are declared when it is imported.
"""

import sys
from importlib.abc import MetaPathFinder


class Declaring(MetaPathFinder):
    library = None

    def find_spec(self, name, path, target=None):
        if name == "torchvision" and Declaring.library is None:
            import torch

            Declaring.library = torch.library.Library("torchvision", "DEF")
            for operator in ("nms", "qnms"):
                Declaring.library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


sys.meta_path.insert(0, Declaring())
