//! Computes functions of single elements, and their gradients.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnPointwiseMode_t as Mode};

use super::super::element::is_integer;
use super::super::tensor::{Array, Tensor, Walk, broadcast_strides, maximum, positions};
use super::context::{Context, Operand, Pull, Results};

struct Pointwise {
    parameters: Parameters,
    operands: [Name; 3],
    uid: i64,
    dims: Vec<usize>,
    scales: [f64; 2],
    /// Whether cuDNN rounds the result to integers for the next operations, in an unknown way.
    is_rounded: bool,
}

impl Pointwise {
    fn new(context: &Context<'_>, operation: &Node) -> Result<Self, String> {
        let parameters = context.graph.children(operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        let parameters = Parameters::new(parameters.first().copied().ok_or("no parameters")?)?;
        let gradient = operation.value(Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC).is_some();
        let (target, second) = if gradient {
            (Name::CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, Name::CUDNN_ATTR_OPERATION_POINTWISE_DYDESC)
        } else {
            (Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
        };
        let operands = [Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, second, Name::CUDNN_ATTR_OPERATION_POINTWISE_TDESC];
        let Tensor { uid, ty, dims, is_virtual, .. } = context.tensor(operation, target)?;
        let is_rounded = is_virtual && is_integer(ty);
        let alpha = |name| operation.float(name).unwrap_or(1.0);
        let scales =
            [Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, Name::CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2].map(alpha);
        Ok(Pointwise { parameters, operands, uid, dims, scales, is_rounded })
    }

    /// Returns an element of the result, or NaN if rounding by these distances may cross a jump of the function.
    fn value(&self, operands: [f64; 3], distances: [f64; 3], index: usize) -> Result<f64, String> {
        let [alpha1, alpha2] = self.scales;
        let scaled = |[x, b, t]: [f64; 3]| [x * alpha1, b * alpha2, t];
        let [x, b, t] = scaled(operands);
        let value = self.parameters.value(x, b, t, index)?;
        let is_unknown = self.parameters.is_undecided([x, b, t], scaled(distances));
        Ok(if is_unknown || self.is_rounded && value.fract() != 0.0 { f64::NAN } else { value })
    }
}

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let pointwise = Pointwise::new(context, operation)?;
    let dims = pointwise.dims.clone();
    let none = Array::filled(&[1], 0.0);
    let [x, b, t] = pointwise.operands;
    let distance = |(name, jumps)| if jumps { context.uncertainty(operation, name) } else { 0.0 };
    let [x_jumps, b_jumps, t_jumps] = pointwise.parameters.jumps();
    let distances = [(x, x_jumps), (b, b_jumps), (t, t_jumps)].map(distance);
    let x = context.input(operation, x)?;
    let b = context.optional(operation, b).unwrap_or(&none);
    let t = context.optional(operation, t).unwrap_or(&none);
    let strides = [x.strides_in(&dims)?, b.strides_in(&dims)?, t.strides_in(&dims)?];
    // The strides of the index along the axis.
    let axis = pointwise.parameters.axis;
    let along: Vec<usize> = (0..dims.len()).map(|dimension| usize::from(Some(dimension) == axis)).collect();
    let [x_strides, b_strides, t_strides] = &strides;
    // Report an unsupported mode.
    pointwise.value([0.0; 3], [0.0; 3], 0)?;
    let value = |_, [at_x, at_b, at_t, index]: [usize; 4]| {
        pointwise.value([x.get(at_x), b.get(at_b), t.get(at_t)], distances, index).unwrap_or(f64::NAN)
    };
    let values = Walk::new(&dims, [x_strides, b_strides, t_strides, &along]).values(value);
    Ok(vec![(pointwise.uid, Array { dims, values })])
}

/// The cost of an element, in multiplications.
const ELEMENT_COST: u64 = 256;

pub(super) fn element(context: &Context<'_>, operation: &Node, index: usize, pull: &Pull<'_>) -> Result<f64, String> {
    context.spend(Some(ELEMENT_COST))?;
    let pointwise = Pointwise::new(context, operation)?;
    let positions = positions(index, &pointwise.dims);
    let mut values = [0.0; 3];
    let jumps = pointwise.parameters.jumps();
    for ((value, name), jumps) in values.iter_mut().zip(pointwise.operands).zip(jumps) {
        // The effect of rounding depends on the other values, which are unknown.
        if jumps && context.is_computed(operation, name) {
            let mode = pointwise.parameters.mode;
            return Err(format!("it is too large, and {mode:?} is a jump of computed values"));
        }
        if operation.value(name).is_some() {
            let (_, dims) = context.output(operation, name)?;
            let strides = broadcast_strides(&dims, &pointwise.dims)?;
            let at = positions.iter().zip(strides).map(|(position, stride)| position * stride).sum();
            *value = Operand::new(context, operation, name).get(at, pull)?;
        }
    }
    let along = pointwise.parameters.axis.and_then(|axis| positions.get(axis)).copied().unwrap_or(0);
    pointwise.value(values, [0.0; 3], along)
}

struct Parameters {
    mode: Mode,
    axis: Option<usize>,
    lower: f64,
    upper: f64,
    slope: f64,
    elu: f64,
    softplus: f64,
    swish: f64,
}

impl Parameters {
    fn new(node: &Node) -> Result<Self, String> {
        let number = |name, default| node.float(name).unwrap_or(default);
        let mode = node.integer(Name::CUDNN_ATTR_POINTWISE_MODE).ok_or("a pointwise operation without a mode")?;
        Ok(Parameters {
            mode: Mode(mode as _),
            axis: node.integer(Name::CUDNN_ATTR_POINTWISE_AXIS).and_then(|axis| usize::try_from(axis).ok()),
            lower: number(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0.0),
            upper: number(Name::CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, f64::INFINITY),
            slope: number(Name::CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0),
            elu: number(Name::CUDNN_ATTR_POINTWISE_ELU_ALPHA, 1.0),
            softplus: number(Name::CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1.0),
            swish: number(Name::CUDNN_ATTR_POINTWISE_SWISH_BETA, 1.0),
        })
    }

    /// Returns the operands in which the function jumps.
    fn jumps(&self) -> [bool; 3] {
        match self.mode {
            Mode::CUDNN_POINTWISE_FLOOR
            | Mode::CUDNN_POINTWISE_CEIL
            | Mode::CUDNN_POINTWISE_LOGICAL_NOT
            | Mode::CUDNN_POINTWISE_RELU_BWD => [true, false, false],
            Mode::CUDNN_POINTWISE_ELU_BWD => [self.elu != 1.0, false, false],
            Mode::CUDNN_POINTWISE_MOD
            | Mode::CUDNN_POINTWISE_FLOOR_MOD
            | Mode::CUDNN_POINTWISE_ATAN2
            | Mode::CUDNN_POINTWISE_CMP_EQ
            | Mode::CUDNN_POINTWISE_CMP_NEQ
            | Mode::CUDNN_POINTWISE_CMP_GT
            | Mode::CUDNN_POINTWISE_CMP_GE
            | Mode::CUDNN_POINTWISE_CMP_LT
            | Mode::CUDNN_POINTWISE_CMP_LE
            | Mode::CUDNN_POINTWISE_LOGICAL_AND
            | Mode::CUDNN_POINTWISE_LOGICAL_OR => [true, true, false],
            Mode::CUDNN_POINTWISE_BINARY_SELECT => [false, false, true],
            _ => [false; 3],
        }
    }

    /// Returns numbers that differ between both sides of a jump.
    fn branch(&self, [x, b, t]: [f64; 3]) -> [f64; 2] {
        // Comparing avoids the difference of infinite numbers.
        let order = |a: f64, b: f64| f64::from(i8::from(a > b) - i8::from(a < b));
        match self.mode {
            Mode::CUDNN_POINTWISE_FLOOR => [x.floor(), 0.0],
            Mode::CUDNN_POINTWISE_CEIL => [x.ceil(), 0.0],
            Mode::CUDNN_POINTWISE_MOD => [(x / b).trunc(), order(b, 0.0)],
            Mode::CUDNN_POINTWISE_FLOOR_MOD => [(x / b).floor(), order(b, 0.0)],
            Mode::CUDNN_POINTWISE_ATAN2 if b < 0.0 => [order(x, 0.0), -1.0],
            Mode::CUDNN_POINTWISE_ATAN2 => [0.0; 2],
            Mode::CUDNN_POINTWISE_LOGICAL_AND
            | Mode::CUDNN_POINTWISE_LOGICAL_OR
            | Mode::CUDNN_POINTWISE_LOGICAL_NOT => [order(x, 0.0), order(b, 0.0)],
            Mode::CUDNN_POINTWISE_BINARY_SELECT => [order(t, 0.0), 0.0],
            Mode::CUDNN_POINTWISE_RELU_BWD => [order(x, self.lower), order(x, self.upper)],
            Mode::CUDNN_POINTWISE_ELU_BWD => [order(x, 0.0), 0.0],
            _ => [order(x, b), 0.0],
        }
    }

    /// Returns whether rounding of the operands by up to these distances decides the value, because they are close to a
    /// jump, or because the side of NaN is unknown.
    fn is_undecided(&self, operands: [f64; 3], distances: [f64; 3]) -> bool {
        let jumps = self.jumps();
        if operands.iter().zip(jumps).any(|(operand, jumps)| jumps && operand.is_nan()) {
            return true;
        }
        if distances == [0.0; 3] {
            return false;
        }
        let branch = self.branch(operands);
        // Three bits select the directions of the operands.
        (0..8_u8).any(|directions| {
            let mut moved = operands;
            for (index, (operand, distance)) in moved.iter_mut().zip(distances).enumerate() {
                *operand += if directions >> index & 1 == 0 { distance } else { -distance };
            }
            self.branch(moved) != branch
        })
    }

    /// Returns the function of these elements. For gradients, `b` is the gradient of the function's result.
    fn value(&self, x: f64, b: f64, t: f64, index: usize) -> Result<f64, String> {
        let Parameters { lower, upper, slope, elu, softplus, swish, .. } = *self;
        let truth = |is_true: bool| f64::from(u8::from(is_true));
        let sigmoid = |x: f64| 1.0 / (1.0 + libm::exp(-x));
        // The argument of the tangent in the approximation of GELU, and its derivative.
        let inner = (2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3));
        let inner_slope = (2.0 / PI).sqrt() * (1.0 + 3.0 * 0.044715 * x * x);
        let normal = || (1.0 + libm::erf(x * FRAC_1_SQRT_2)) / 2.0;
        Ok(match self.mode {
            Mode::CUDNN_POINTWISE_ADD => x + b,
            Mode::CUDNN_POINTWISE_ADD_SQUARE => x + b * b,
            Mode::CUDNN_POINTWISE_SUB => x - b,
            Mode::CUDNN_POINTWISE_MUL => x * b,
            Mode::CUDNN_POINTWISE_DIV => x / b,
            Mode::CUDNN_POINTWISE_MAX => maximum(x, b),
            Mode::CUDNN_POINTWISE_MIN => -maximum(-x, -b),
            Mode::CUDNN_POINTWISE_MOD => x % b,
            Mode::CUDNN_POINTWISE_FLOOR_MOD => x - b * (x / b).floor(),
            Mode::CUDNN_POINTWISE_POW => libm::pow(x, b),
            Mode::CUDNN_POINTWISE_ATAN2 => libm::atan2(x, b),
            Mode::CUDNN_POINTWISE_ABS => x.abs(),
            Mode::CUDNN_POINTWISE_CEIL => x.ceil(),
            Mode::CUDNN_POINTWISE_FLOOR => x.floor(),
            Mode::CUDNN_POINTWISE_COS => libm::cos(x),
            Mode::CUDNN_POINTWISE_SIN => libm::sin(x),
            Mode::CUDNN_POINTWISE_TAN => libm::tan(x),
            Mode::CUDNN_POINTWISE_EXP => libm::exp(x),
            Mode::CUDNN_POINTWISE_LOG => libm::log(x),
            Mode::CUDNN_POINTWISE_NEG => -x,
            Mode::CUDNN_POINTWISE_SQRT => x.sqrt(),
            Mode::CUDNN_POINTWISE_RSQRT => 1.0 / x.sqrt(),
            Mode::CUDNN_POINTWISE_RECIPROCAL => 1.0 / x,
            Mode::CUDNN_POINTWISE_ERF => libm::erf(x),
            Mode::CUDNN_POINTWISE_IDENTITY => x,
            Mode::CUDNN_POINTWISE_GEN_INDEX if self.axis.is_some() => index as f64,
            Mode::CUDNN_POINTWISE_BINARY_SELECT => {
                if t != 0.0 {
                    x
                } else {
                    b
                }
            }
            Mode::CUDNN_POINTWISE_CMP_EQ => truth(x == b),
            Mode::CUDNN_POINTWISE_CMP_NEQ => truth(x != b),
            Mode::CUDNN_POINTWISE_CMP_GT => truth(x > b),
            Mode::CUDNN_POINTWISE_CMP_GE => truth(x >= b),
            Mode::CUDNN_POINTWISE_CMP_LT => truth(x < b),
            Mode::CUDNN_POINTWISE_CMP_LE => truth(x <= b),
            Mode::CUDNN_POINTWISE_LOGICAL_AND => truth(x != 0.0 && b != 0.0),
            Mode::CUDNN_POINTWISE_LOGICAL_OR => truth(x != 0.0 || b != 0.0),
            Mode::CUDNN_POINTWISE_LOGICAL_NOT => truth(x == 0.0),
            Mode::CUDNN_POINTWISE_RELU_FWD => {
                if x > lower {
                    x.min(upper)
                } else {
                    lower + slope * (x - lower)
                }
            }
            Mode::CUDNN_POINTWISE_RELU_BWD if x.is_nan() => x,
            Mode::CUDNN_POINTWISE_RELU_BWD => b * if x > lower { truth(x < upper) } else { slope },
            Mode::CUDNN_POINTWISE_TANH_FWD => libm::tanh(x),
            Mode::CUDNN_POINTWISE_TANH_BWD => b * (1.0 - libm::tanh(x).powi(2)),
            Mode::CUDNN_POINTWISE_SIGMOID_FWD => sigmoid(x),
            Mode::CUDNN_POINTWISE_SIGMOID_BWD => b * sigmoid(x) * (1.0 - sigmoid(x)),
            Mode::CUDNN_POINTWISE_ELU_FWD => {
                if x > 0.0 {
                    x
                } else {
                    elu * libm::expm1(x)
                }
            }
            Mode::CUDNN_POINTWISE_ELU_BWD => b * if x > 0.0 { 1.0 } else { elu * libm::exp(x) },
            Mode::CUDNN_POINTWISE_SOFTPLUS_FWD => {
                // This form cannot overflow.
                x.max(0.0) + libm::log1p(libm::exp(-(softplus * x).abs())) / softplus
            }
            Mode::CUDNN_POINTWISE_SOFTPLUS_BWD => b * sigmoid(softplus * x),
            Mode::CUDNN_POINTWISE_SWISH_FWD => x * sigmoid(swish * x),
            Mode::CUDNN_POINTWISE_SWISH_BWD => {
                let s = sigmoid(swish * x);
                b * (s + swish * x * s * (1.0 - s))
            }
            Mode::CUDNN_POINTWISE_GELU_FWD => x * normal(),
            Mode::CUDNN_POINTWISE_GELU_BWD => b * (normal() + x * libm::exp(-x * x / 2.0) / (2.0 * PI).sqrt()),
            Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD => x / 2.0 * (1.0 + libm::tanh(inner)),
            Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_BWD => {
                b * ((1.0 + libm::tanh(inner)) / 2.0 + x / 2.0 * (1.0 - libm::tanh(inner).powi(2)) * inner_slope)
            }
            mode => return Err(format!("the pointwise mode {mode:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_are_derivatives() {
        let pairs = [
            (Mode::CUDNN_POINTWISE_RELU_FWD, Mode::CUDNN_POINTWISE_RELU_BWD),
            (Mode::CUDNN_POINTWISE_TANH_FWD, Mode::CUDNN_POINTWISE_TANH_BWD),
            (Mode::CUDNN_POINTWISE_SIGMOID_FWD, Mode::CUDNN_POINTWISE_SIGMOID_BWD),
            (Mode::CUDNN_POINTWISE_ELU_FWD, Mode::CUDNN_POINTWISE_ELU_BWD),
            (Mode::CUDNN_POINTWISE_SOFTPLUS_FWD, Mode::CUDNN_POINTWISE_SOFTPLUS_BWD),
            (Mode::CUDNN_POINTWISE_SWISH_FWD, Mode::CUDNN_POINTWISE_SWISH_BWD),
            (Mode::CUDNN_POINTWISE_GELU_FWD, Mode::CUDNN_POINTWISE_GELU_BWD),
            (Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, Mode::CUDNN_POINTWISE_GELU_APPROX_TANH_BWD),
        ];
        let with = |mode| Parameters {
            mode,
            axis: None,
            lower: 0.0,
            upper: 6.0,
            slope: 0.1,
            elu: 0.7,
            softplus: 1.3,
            swish: 1.1,
        };
        for (forward, backward) in pairs {
            let f = |x| with(forward).value(x, 0.0, 0.0, 0).unwrap();
            for x in [-2.3, -0.4, 0.7, 1.9, 7.0] {
                let slope = (f(x + 1e-6) - f(x - 1e-6)) / 2e-6;
                let gradient = with(backward).value(x, 3.0, 0.0, 0).unwrap();
                assert!((gradient - 3.0 * slope).abs() < 1e-6, "{backward:?} at {x}: {gradient}, not {}", 3.0 * slope);
            }
        }
    }
}
