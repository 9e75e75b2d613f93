#!/usr/bin/env python3
"""Writes the jobs of this folder: well-known networks, whole, without layouts.

    python3 make_networks.py FOLDER      writes a .textproto of each network into FOLDER

Names of layers are those of the program that is named in the job's comment where it is in PyTorch, so parameters
have the names of its state_dict. Data are synthetic, so that every job can be planned and run as it is.
"""
import os
import sys


def lists(value):
    """[1, 2] of a list, 1 of a number."""
    return '[' + ', '.join(str(v) for v in value) + ']' if isinstance(value, (list, tuple)) else str(value)


class Job:
    """The text of a job, a layer per line. Each method returns the name of the layer that it adds."""

    def __init__(self, name, comment):
        self.name, self.comment, self.layers, self.last = name, comment, [], None
        self.tail = ''

    def layer(self, name, op, inputs=None, init=''):
        inputs = [inputs] if isinstance(inputs, str) else inputs
        read = ''
        if inputs and inputs != [self.last]:
            names = ', '.join('"%s"' % n for n in inputs)
            read = ' input: ' + (names if len(inputs) == 1 else '[' + names + ']')
        self.layers.append('layer { name: "%s"%s%s %s }' % (name, read, init, op))
        self.last = name
        return name

    def conv(self, name, channels, kernel, stride=1, pad=None, inputs=None, bias=False, dilation=1, groups=1):
        """`pad`: absent, what keeps the size at stride 1."""
        if pad is None:
            pad = [dilation * (k // 2) for k in kernel] if isinstance(kernel, list) else dilation * (kernel // 2)
        window = 'kernel: %s' % lists(kernel)
        window += ' stride: %s' % lists(stride) if stride != 1 else ''
        window += ' dilation: %d' % dilation if dilation != 1 else ''
        window += ' pad_lo: %s' % lists(pad) if pad not in (0, [0, 0, 0]) else ''
        more = ('' if bias else ' bias: false') + (' groups: %d' % groups if groups != 1 else '')
        return self.layer(name, 'conv { out_channels: %d%s window { %s } }' % (channels, more, window), inputs)

    def deconv(self, name, channels, kernel, stride=2, bias=False, pad=0, output_padding=0):
        window = 'kernel: %s stride: %s' % (lists(kernel), lists(stride)) + (' pad_lo: %d' % pad if pad else '')
        more = ('' if bias else ' bias: false') + (' output_padding: %d' % output_padding if output_padding else '')
        return self.layer(name, 'conv { out_channels: %d transposed: true%s window { %s } }' % (channels, more, window))

    def norm(self, name, kind='batch', **fields):
        more = ''.join(' %s: %s' % field for field in fields.items())
        return self.layer(name, 'norm { kind: "%s"%s }' % (kind, more))

    def fn(self, name, fn='relu', arg=None, inputs=None):
        return self.layer(name, 'activation { fn: "%s"%s }' % (fn, '' if arg is None else ' arg: %g' % arg), inputs)

    def pool(self, name, mode, kernel, stride=None, pad=0):
        window = 'kernel: %s' % lists(kernel) + (' stride: %s' % lists(stride) if stride else '')
        window += ' pad_lo: %d' % pad if pad else ''
        return self.layer(name, 'pool { mode: "%s" window { %s } }' % (mode, window))

    def global_pool(self, name, inputs=None):
        return self.layer(name, 'pool { mode: "avg" adaptive_size: 1 }', inputs)

    def flatten(self, name):
        return self.layer(name, 'flatten {}')

    def linear(self, name, features):
        return self.layer(name, 'linear { out_features: %d }' % features)

    def dropout(self, name, p):
        return self.layer(name, 'dropout { p: %g }' % p)

    def add(self, name, inputs):
        return self.layer(name, 'add {}', inputs)

    def concat(self, name, inputs):
        return self.layer(name, 'concat { arg: 1 }', inputs)

    def end(self, losses, fields, train):
        """`fields`: name, sample's shape, number of classes where it is a label."""
        self.tail = '\n'.join('loss { %s }' % loss for loss in losses)
        self.tail += '\n\ndataset {\n  name: "train"\n'
        for name, shape, classes in fields:
            source = 'kind: "index" samples: 1024 high: %d' % classes if classes else 'kind: "normal" samples: 1024'
            self.tail += '  field { name: "%s" synthetic { %s }%s%s }\n' % (
                name, source, ' shape: %s' % lists(shape) if shape else '', ' dtype: "int64"' if classes else '')
        self.tail += '}\n\ntrain { dataset: "train" %s }\noutput_dir: "%s"\n' % (train, self.name)
        return self

    def text(self):
        lines = ['# ' + line for line in self.comment.strip().split('\n')]
        lines += ['# Made by make_networks.py; without layouts, for `adjoin plan --auto`.']
        lines += ['name: "%s"' % self.name, 'kind: TRAIN', 'ranks: 1', 'seed: 1', '']
        return '\n'.join(lines + self.layers) + '\n' + self.tail


SGD = 'optimizer { sgd { lr: 0.1 momentum: 0.9 weight_decay: 0.0001 } }'
ADAM = 'optimizer { adam { lr: 0.001 } }'


def resnet(name, blocks, comment, spatial=2, classes=1000, shape=(3, 224, 224), batch=256):
    """Bottleneck blocks with the stride in the middle convolution."""
    job = Job(name, comment)
    stem = 7 if spatial == 2 else [7, 7, 7]
    job.conv('conv1', 64, stem, stride=2 if spatial == 2 else [1, 2, 2], inputs='image')
    job.norm('bn1')
    job.fn('relu1')
    x = job.pool('maxpool', 'max', 3, 2, 1)
    channels = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            at = 'layer%d.%d.' % (stage + 1, block)
            stride = 2 if stage > 0 and block == 0 else 1
            job.conv(at + 'conv1', width, 1, inputs=x)
            job.norm(at + 'bn1')
            job.fn(at + 'relu1')
            job.conv(at + 'conv2', width, 3, stride=stride)
            job.norm(at + 'bn2')
            job.fn(at + 'relu2')
            job.conv(at + 'conv3', 4 * width, 1)
            y = job.norm(at + 'bn3')
            if stride != 1 or channels != 4 * width:
                job.conv(at + 'downsample.0', 4 * width, 1, stride=stride, inputs=x)
                x = job.norm(at + 'downsample.1')
            job.add(at + 'add', [y, x])
            x = job.fn(at + 'relu3')
            channels = 4 * width
    job.global_pool('avgpool')
    job.flatten('flatten')
    job.linear('fc', classes)
    return job.end(['kind: "cross_entropy" input: "fc" target: "label"'],
                   [('image', list(shape), 0), ('label', [], classes)], 'batch: %d epochs: 90 %s' % (batch, SGD))


def densenet121():
    job = Job('densenet121', '''
DenseNet-121 on ImageNet: Huang et al., "Densely connected convolutional networks", arXiv 1608.06993; names as torchvision's.
Each layer's result is put behind all those before it, so the concatenations follow one another. 7,978,856 parameters.''')
    job.conv('features.conv0', 64, 7, stride=2, inputs='image')
    job.norm('features.norm0')
    job.fn('features.relu0')
    x = job.pool('features.pool0', 'max', 3, 2, 1)
    channels = 64
    for index, count in enumerate([6, 12, 24, 16]):
        for layer in range(count):
            at = 'features.denseblock%d.denselayer%d.' % (index + 1, layer + 1)
            job.layer(at + 'norm1', 'norm { kind: "batch" }', x)
            job.fn(at + 'relu1')
            job.conv(at + 'conv1', 128, 1)
            job.norm(at + 'norm2')
            job.fn(at + 'relu2')
            y = job.conv(at + 'conv2', 32, 3)
            x = job.concat(at + 'concat', [x, y])
        channels += 32 * count
        if index == 3:
            break
        at = 'features.transition%d.' % (index + 1)
        channels //= 2
        job.norm(at + 'norm')
        job.fn(at + 'relu')
        job.conv(at + 'conv', channels, 1)
        x = job.pool(at + 'pool', 'avg', 2)
    job.norm('features.norm5')
    job.fn('relu5')
    job.global_pool('avgpool')
    job.flatten('flatten')
    job.linear('classifier', 1000)
    return job.end(['kind: "cross_entropy" input: "classifier" target: "label"'],
                   [('image', [3, 224, 224], 0), ('label', [], 1000)], 'batch: 256 epochs: 90 ' + SGD)


def vit48():
    job = Job('vit48', '''
ViT-G/14, a vision transformer of 48 blocks: Zhai et al., "Scaling vision transformers", arXiv 2106.04560, table 2 (width 1664, 16
heads, MLP of 8192); class token, patches of 14 x 14. 1,843 million parameters, and the last layer for 1,000 classes.''')
    job.conv('patch', 1664, 14, stride=14, pad=0, inputs='image', bias=True)
    job.layer('patches', 'reshape { arg: [1664, 256] }')
    job.layer('sequence', 'permute { arg: [0, 2, 1] }')
    job.layer('class', 'tokens { count: 1 }')
    job.concat('with_class', ['class', 'sequence'])
    job.layer('position', 'position { kind: "learned" }')
    for block in range(48):
        job.layer('block%d' % block, 'transformer { heads: 16 hidden: 8192 }')
    job.norm('norm', 'layer')
    job.layer('of_class', 'index_select { arg: [1, 0] }')
    job.layer('vector', 'reshape { arg: 1664 }')
    job.linear('head', 1000)
    return job.end(['kind: "cross_entropy" input: "head" target: "label"'],
                   [('image', [3, 224, 224], 0), ('label', [], 1000)], 'batch: 512 epochs: 90 ' + ADAM)


def segmentation(job, volume, label, classes, batch):
    job.conv('head', classes, 1, bias=True)
    job.layer('probability', 'softmax { dim: 1 }')
    return job.end(['kind: "cross_entropy" input: "head" target: "label"',
                    'kind: "dice" input: "probability" target: "label"'],
                   [('volume', volume, 0), ('label', label, classes)], 'batch: %d steps: 1000 %s' % (batch, ADAM))


def unet3d_4():
    job = Job('unet3d-4', '''
3-D U-Net of 4 levels: Cicek et al., "3D U-Net: learning dense volumetric segmentation from sparse annotation", arXiv 1606.06650,
figure 2; here with padding, so that results are as large as volumes. 19,069,955 parameters, those of batch norm not counted.''')
    skips = []
    for level in range(4):
        for index, channels in enumerate([32 << level, 64 << level]):
            at = 'down%d.' % (level + 1)
            first = level == 0 and index == 0
            job.conv('%sconv%d' % (at, index + 1), channels, 3, bias=True, inputs='volume' if first else None)
            job.norm('%sbn%d' % (at, index + 1))
            x = job.fn('%srelu%d' % (at, index + 1))
        if level < 3:
            skips.append(x)
            job.pool('pool%d' % (level + 1), 'max', 2)
    for level in reversed(range(3)):
        at = 'up%d.' % (level + 1)
        x = job.deconv(at + 'deconv', 128 << level, 2)
        job.concat(at + 'concat', [skips[level], x])
        for index in (1, 2):
            job.conv('%sconv%d' % (at, index), 64 << level, 3, bias=True)
            job.norm('%sbn%d' % (at, index))
            x = job.fn('%srelu%d' % (at, index))
    return segmentation(job, [3, 256, 256, 256], [256, 256, 256], 3, 2)


def unet3d(levels, extent, batch):
    job = Job('unet3d-%d' % levels, '''
3-D U-Net of %d levels on whole volumes of %d cells each way: nnU-Net's plain network, Isensee et al., arXiv 1809.10486: from 32 to
320 channels, instance norm, leaky ReLU, strides instead of pooling. Four classes, four channels (brain tumours).''' %
              (levels, extent))
    widths = [min(32 << level, 320) for level in range(levels)]

    def unit(at, index, channels, stride=1, inputs=None):
        job.conv('%sconv%d' % (at, index), channels, 3, stride=stride, bias=True, inputs=inputs)
        job.norm('%snorm%d' % (at, index), 'instance', affine='true')
        return job.fn('%srelu%d' % (at, index), 'leaky_relu', 0.01)

    skips = []
    for level, width in enumerate(widths):
        at = 'down%d.' % (level + 1)
        unit(at, 1, width, 2 if level else 1, None if level else 'volume')
        skips.append(unit(at, 2, width))
    for level in reversed(range(levels - 1)):
        at = 'up%d.' % (level + 1)
        x = job.deconv(at + 'deconv', widths[level], 2)
        job.concat(at + 'concat', [x, skips[level]])
        unit(at, 1, widths[level])
        unit(at, 2, widths[level])
    return segmentation(job, [4] + 3 * [extent], 3 * [extent], 4, batch)


def unet_plus_plus():
    job = Job('unet-plus-plus', '''
UNet++ of five levels (L4): Zhou et al., "UNet++: a nested U-Net architecture for medical image segmentation", arXiv 1807.10165, as
the authors' program Nest_Net (MrGiovanni/UNetPlusPlus, model.py). 9,041,601 parameters.''')
    widths = [32, 64, 128, 256, 512]
    node = {}  # by level and column

    def unit(level, column, inputs=None):
        at = 'x%d_%d.' % (level, column)
        for index in (1, 2):
            job.conv('%sconv%d' % (at, index), widths[level], 3, bias=True, inputs=inputs if index == 1 else None)
            job.fn('%selu%d' % (at, index), 'elu')
            node[level, column] = job.dropout('%sdrop%d' % (at, index), 0.5)

    unit(0, 0, 'image')
    for level in range(1, 5):
        job.layer('pool%d' % level, 'pool { mode: "max" window { kernel: 2 } }', node[level - 1, 0])
        unit(level, 0)
        for column in range(1, level + 1):
            row = level - column
            at = 'x%d_%d.' % (row, column)
            below = node[row + 1, column - 1]
            deconv = 'conv { out_channels: %d transposed: true window { kernel: 2 stride: 2 } }' % widths[row]
            up = job.layer(at + 'up', deconv, below)
            job.concat(at + 'concat', [up] + [node[row, c] for c in range(column)])
            unit(row, column)
    job.conv('output', 1, 1, bias=True)
    return job.end(['kind: "bce_with_logits" input: "output" target: "mask"'],
                   [('image', [1, 512, 512], 0), ('mask', [1, 512, 512], 0)], 'batch: 16 steps: 1000 ' + ADAM)


def cosmoflow():
    job = Job('cosmoflow', '''
CosmoFlow at 512 x 512 x 512 in 4 channels, as LBANN has it (LLNL/lbann, applications/physics/cosmology/cosmoflow): Oyama et al., "The
case for strong scaling in deep learning: training large 3D CNNs with hybrid parallelism", arXiv 2007.12856, after Mathuriya et al.,
arXiv 1808.04728. Four cosmological parameters, as a tanh. 38,798,772 parameters, most of them in fc1.''')
    for index in range(7):
        n = index + 1
        job.conv('conv%d' % n, min(16 << index, 256), 3, bias=True, inputs=None if index else 'universe')
        job.fn('relu%d' % n, 'leaky_relu', 0.3)
        job.pool('pool%d' % n, 'avg', 3, 2, 1)
    job.flatten('flatten')
    for index, features in enumerate([2048, 256, 4]):
        if index:
            job.fn('fc_relu%d' % index, 'leaky_relu', 0.3)
            job.dropout('dropout%d' % index, 0.5)
        job.linear('fc%d' % (index + 1), features)
    job.fn('tanh', 'tanh')
    return job.end(['kind: "mse" input: "tanh" target: "parameters"'],
                   [('universe', [4, 512, 512, 512], 0), ('parameters', [4], 0)],
                   'batch: 16 steps: 1000 optimizer { sgd { lr: 0.001 momentum: 0.9 } }')


def deepcam():
    job = Job('deepcam', '''
DeepCAM: segmentation of climate data, 16 channels of 768 x 1152 in three classes, by a DeepLabv3+ with an Xception encoder and a decoder
at full resolution: Kurth et al., "Exascale deep learning for climate analytics", arXiv 1810.01993, as MLPerf HPC has it
(mlcommons/hpc, deepcam/src/deepCam/architecture/deeplab_xception.py). 56,454,720 parameters.''')

    def separable(at, channels_in, channels, stride=1, dilation=1, inputs=None):
        job.conv(at + '.conv1', channels_in, 3, stride=stride, dilation=dilation, groups=channels_in, inputs=inputs)
        return job.conv(at + '.pointwise', channels, 1)

    def block(at, x, channels_in, channels, reps, stride=1, end_relu=True, grow_first=True, is_last=False):
        steps = [(channels_in, channels)] if grow_first else []
        steps += [(channels if grow_first else channels_in,) * 2] * (reps - 1)
        steps += [] if grow_first else [(channels_in, channels)]
        index = 0
        for number, (a, b) in enumerate(steps):
            if number:
                job.fn('%s.rep.%d' % (at, index - 1))
            separable('%s.rep.%d' % (at, index), a, b, inputs=None if number else x)
            y = job.norm('%s.rep.%d.bn' % (at, index + 1))
            index += 3
        if stride != 1 or is_last:
            y = separable('%s.rep.%d' % (at, index - 1), channels, channels, stride=stride)
        if channels != channels_in or stride != 1:
            job.conv(at + '.skip', channels, 1, stride=stride, inputs=x)
            x = job.norm(at + '.skipbn.bn')
        x = job.add(at + '.add', [y, x])
        return job.fn(at + '.relu') if end_relu else x

    def conv_norm(at, channels, kernel, inputs=None, **more):
        job.conv(at, channels, kernel, inputs=inputs, **more)
        job.norm(at + '.bn')
        return job.fn(at + '.relu')

    e = 'xception_features.'
    conv_norm(e + 'conv1', 32, 3, 'climate', stride=2)
    x = conv_norm(e + 'conv2', 64, 3)
    low = block(e + 'block1', x, 64, 128, 2, 2, end_relu=False)
    x = job.fn(e + 'block1.relu')
    x = block(e + 'block2', x, 128, 256, 2, 2)
    x = block(e + 'block3', x, 256, 728, 2, 2, is_last=True)
    for index in range(4, 20):
        x = block('%sblock%d' % (e, index), x, 728, 728, 3)
    block(e + 'block20', x, 728, 1024, 2, end_relu=False, grow_first=False, is_last=True)
    for index, (a, b) in enumerate([(1024, 1536), (1536, 1536), (1536, 2048)]):
        separable('%sconv%d' % (e, index + 3), a, b, dilation=2)
        job.norm('%sbn%d.bn' % (e, index + 3))
        x = job.fn('%srelu%d' % (e, index + 3))

    branches = []
    for index, rate in enumerate([1, 6, 12, 18]):
        branches.append(conv_norm('bottleneck.aspp%d.atrous_convolution' % (index + 1), 256, 1 if rate == 1 else 3, x,
                                  dilation=rate))
    g = 'bottleneck.global_avg_pool.'
    job.global_pool(g + 'pool', x)
    job.conv(g + 'conv', 256, 1)
    job.conv(g + 'affine', 256, 1, groups=256, bias=True)
    job.fn(g + 'relu')
    branches.append(job.layer(g + 'tile', 'expand { arg: [-1, 256, 48, 72] }'))
    job.concat('bottleneck.concat', branches)
    conv_norm('bottleneck.conv', 256, 1)

    def deconv_norm(at):
        job.deconv(at, 256, 3, pad=1, output_padding=1)
        job.norm(at + '.bn')
        return job.fn(at + '.relu')

    deconv_norm('upsample.deconv1.0')
    x = deconv_norm('upsample.deconv1.3')
    low = conv_norm('conv2', 48, 1, low)
    job.concat('upsample.concat', [x, low])
    conv_norm('upsample.conv1.0', 256, 3)
    conv_norm('upsample.conv1.3', 256, 3)
    job.conv('upsample.conv1.6', 256, 1, bias=True)
    deconv_norm('upsample.deconv2.0')
    job.deconv('upsample.last_deconv.0', 3, 3, pad=1, output_padding=1)
    return job.end(['kind: "cross_entropy" input: "upsample.last_deconv.0" target: "label" '
                    'class_weight: [0.986267818390377, 0.0004578708870701058, 0.01327431072255291]'],
                   [('climate', [16, 768, 1152], 0), ('label', [768, 1152], 3)], 'batch: 32 steps: 1000 ' + ADAM)


def networks():
    text = '''
%s on ImageNet: He et al., "Deep residual learning for image recognition", arXiv 1512.03385; names, and the stride in
the second convolution of a block, as torchvision's. %s parameters.'''
    return [
        resnet('resnet50', [3, 4, 6, 3], text % ('ResNet-50', '25,557,032')),
        resnet('resnet152', [3, 8, 36, 3], text % ('ResNet-152', '60,192,808')),
        resnet('resnet50-3d', [3, 4, 6, 3], '''
3-D ResNet-50 on videos of 64 frames of 448 x 448: Hara et al., "Can spatiotemporal 3D CNNs retrace the history of 2D CNNs and
ImageNet?", arXiv 1711.09577; names as the authors' program (kenshohara/3D-ResNets-PyTorch). 400 actions (Kinetics).''', 3, 400,
               (3, 64, 448, 448), 64),
        densenet121(), vit48(), unet3d_4(), unet3d(5, 256, 2), unet3d(6, 320, 2), unet3d(7, 512, 1), unet_plus_plus(),
        cosmoflow(), deepcam()
    ]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for job in networks():
        with open(os.path.join(sys.argv[1], job.name + '.textproto'), 'w') as file:
            file.write(job.text())


if __name__ == '__main__':
    main()
