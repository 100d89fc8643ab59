# The part of numpy that the scripts of `check --run` need to make inputs.
import math


class array(list):
    def __init__(self, values, dtype):
        super().__init__(values)

    def reshape(self, shape):
        return self

    def __truediv__(self, number):
        return self

    ravel = lambda self: self


prod = math.prod
