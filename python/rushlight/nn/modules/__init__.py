"""All layers, gathered from the files they are in."""

from rushlight.nn.modules import (
    activation,
    adaptive,
    batchnorm,
    channelshuffle,
    container,
    conv,
    distance,
    dropout,
    flatten,
    fold,
    instancenorm,
    linear,
    linear_cross_entropy_options,
    loss,
    normalization,
    padding,
    pixelshuffle,
    pooling,
    rnn,
    sparse,
    transformer,
    upsampling,
)
from rushlight.nn.modules.activation import *
from rushlight.nn.modules.adaptive import *
from rushlight.nn.modules.batchnorm import *
from rushlight.nn.modules.channelshuffle import *
from rushlight.nn.modules.container import *
from rushlight.nn.modules.conv import *
from rushlight.nn.modules.distance import *
from rushlight.nn.modules.dropout import *
from rushlight.nn.modules.flatten import *
from rushlight.nn.modules.fold import *
from rushlight.nn.modules.instancenorm import *
from rushlight.nn.modules.linear import *
from rushlight.nn.modules.linear_cross_entropy_options import *
from rushlight.nn.modules.loss import *
from rushlight.nn.modules.module import Module as Module
from rushlight.nn.modules.normalization import *
from rushlight.nn.modules.padding import *
from rushlight.nn.modules.pixelshuffle import *
from rushlight.nn.modules.pooling import *
from rushlight.nn.modules.rnn import *
from rushlight.nn.modules.sparse import *
from rushlight.nn.modules.transformer import *
from rushlight.nn.modules.upsampling import *

TYPE_CHECKING = False

if not TYPE_CHECKING:  # who reads types reads the imports
    __all__ = sorted(
        [
            "Module",
            *activation.__all__,
            *adaptive.__all__,
            *batchnorm.__all__,
            *channelshuffle.__all__,
            *container.__all__,
            *conv.__all__,
            *distance.__all__,
            *dropout.__all__,
            *flatten.__all__,
            *fold.__all__,
            *instancenorm.__all__,
            *linear.__all__,
            *linear_cross_entropy_options.__all__,
            *loss.__all__,
            *normalization.__all__,
            *padding.__all__,
            *pixelshuffle.__all__,
            *pooling.__all__,
            *rnn.__all__,
            *sparse.__all__,
            *transformer.__all__,
            *upsampling.__all__,
        ]
    )
