//! Convolutions: forward, and the gradients of the data and of the filter. All three add the same products.

use cudnn_capture_file::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::super::tensor::Array;
use super::context::{Context, Results, float};

/// A product along a spatial dimension: the positions in the data, the filter and the output.
type Taps = Vec<[usize; 3]>;

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    use Name as N;
    let names = match operation.kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => [
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        ],
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => [
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
        ],
        _ => [
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
        ],
    };
    let [x, w, y, parameters, alpha, beta] = names;
    let parameters = context.graph.children(operation, parameters).first().copied().ok_or("no parameters")?;
    let (_, x_dims) = context.output(operation, x)?;
    let (_, w_dims) = context.output(operation, w)?;
    let (_, y_dims) = context.output(operation, y)?;
    let geometry = Geometry::new(parameters, &x_dims, &w_dims, &y_dims)?;
    context.spend(geometry.products())?;
    let target = match operation.kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => y,
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => x,
        _ => w,
    };
    let (uid, dims) = context.output(operation, target)?;
    let mut sums = Array::filled(&dims, 0.0);
    if target == y {
        let (x, w) = (context.input(operation, x)?, context.input(operation, w)?);
        geometry.each(|x_at, w_at, y_at| sums.update(y_at, |sum| sum + x.get(x_at) * w.get(w_at)));
    } else if target == x {
        let (w, y) = (context.input(operation, w)?, context.input(operation, y)?);
        geometry.each(|x_at, w_at, y_at| sums.update(x_at, |sum| sum + w.get(w_at) * y.get(y_at)));
    } else {
        let (x, y) = (context.input(operation, x)?, context.input(operation, y)?);
        geometry.each(|x_at, w_at, y_at| sums.update(w_at, |sum| sum + x.get(x_at) * y.get(y_at)));
    }
    let (alpha, beta) = (float(operation, alpha).unwrap_or(1.0), float(operation, beta).unwrap_or(0.0));
    sums.values.iter_mut().for_each(|sum| *sum *= alpha);
    if beta != 0.0 {
        let former = context.former(uid)?;
        sums.values.iter_mut().zip(&former.values).for_each(|(sum, former)| *sum += beta * former);
    }
    Ok(vec![(uid, sums)])
}

/// The extents of a convolution with three spatial dimensions. Missing ones have the extent 1.
struct Geometry {
    /// Images, filters, and channels of a filter.
    counts: [usize; 3],
    channels: usize,
    x: [usize; 3],
    w: [usize; 3],
    y: [usize; 3],
    taps: [Taps; 3],
}

impl Geometry {
    fn new(parameters: &Node, x: &[usize], w: &[usize], y: &[usize]) -> Result<Self, String> {
        let ([n, channels, x @ ..], [filters, depth, w @ ..], [y_n, y_channels, y @ ..]) = (x, w, y) else {
            return Err("a convolution with fewer than two dimensions".to_owned());
        };
        let numbers = |name| parameters.integers(name);
        let [pads, strides, dilations] = [
            Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
            Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
            Name::CUDNN_ATTR_CONVOLUTION_DILATIONS,
        ]
        .map(numbers);
        let is_grouped = *depth > 0 && channels.is_multiple_of(*depth) && filters.is_multiple_of(channels / depth);
        let ranks = [w.len(), y.len(), pads.len(), strides.len(), dilations.len()];
        if x.len() > 3 || ranks.iter().any(|rank| *rank != x.len()) || (n, filters) != (y_n, y_channels) || !is_grouped
        {
            return Err("a convolution in a grouped layout".to_owned());
        }
        // CUDNN_CONVOLUTION
        let is_flipped = parameters.integer(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE) == Some(0);
        let mut geometry = Geometry {
            counts: [*n, *filters, *depth],
            channels: *channels,
            x: [1; 3],
            w: [1; 3],
            y: [1; 3],
            taps: [const { Vec::new() }; 3],
        };
        geometry.taps.fill(vec![[0; 3]]);
        let spatial = geometry.x.iter_mut().zip(&mut geometry.w).zip(&mut geometry.y).zip(&mut geometry.taps);
        let given = x.iter().zip(w).zip(y).zip(pads.iter().zip(strides).zip(dilations));
        for ((((to_x, to_w), to_y), taps), (((x, w), y), ((pad, stride), dilation))) in spatial.zip(given) {
            (*to_x, *to_w, *to_y) = (*x, *w, *y);
            taps.clear();
            for at_y in 0..*y {
                for at_w in 0..*w {
                    let place =
                        i128::from(*stride) * at_y as i128 - i128::from(*pad) + i128::from(*dilation) * at_w as i128;
                    if let Ok(at_x) = usize::try_from(place)
                        && at_x < *x
                    {
                        taps.push([at_x, if is_flipped { w - 1 - at_w } else { at_w }, at_y]);
                    }
                }
                if taps.len() > 1 << 24 {
                    return Err("a convolution that is too large".to_owned());
                }
            }
        }
        Ok(geometry)
    }

    fn products(&self) -> Option<u64> {
        let factors = self.counts.iter().copied().chain(self.taps.iter().map(Vec::len));
        factors.into_iter().try_fold(1_u64, |product, factor| product.checked_mul(factor as u64))
    }

    /// Calls a function with the indices of each product in the data, the filter and the output.
    fn each(&self, mut function: impl FnMut(usize, usize, usize)) {
        let Geometry { counts: [n, filters, depth], channels, x, w, y, taps: [taps_d, taps_h, taps_w] } = self;
        let filters_in_group = (filters / (channels / depth).max(1)).max(1);
        let line = |base: usize, [_, height, _]: &[usize; 3], d: usize, h: usize| base + d * height + h;
        for image in 0..*n {
            for filter in 0..*filters {
                for channel in 0..*depth {
                    let x_plane = image * channels + filter / filters_in_group * depth + channel;
                    let (w_plane, y_plane) = (filter * depth + channel, image * filters + filter);
                    let base = |plane: usize, [d, h, _]: &[usize; 3]| plane * d * h;
                    for [x_d, w_d, y_d] in taps_d {
                        for [x_h, w_h, y_h] in taps_h {
                            let x_line = line(base(x_plane, x), x, *x_d, *x_h) * x[2];
                            let w_line = line(base(w_plane, w), w, *w_d, *w_h) * w[2];
                            let y_line = line(base(y_plane, y), y, *y_d, *y_h) * y[2];
                            for [x_w, w_w, y_w] in taps_w {
                                function(x_line + x_w, w_line + w_w, y_line + y_w);
                            }
                        }
                    }
                }
            }
        }
    }
}
