//! Computes sums of products of rows and lanes, for convolutions, matmuls and attention.
//!
//! A sum adds its products in the order of the terms, so its bits are independent of processor and threads.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::super::tensor::Array;

const LANES: usize = 8;
/// The number of rows that are computed at once. The sums for these rows and the lanes of a panel fit in registers.
const ROWS: usize = 4;
/// The numbers of rows, panels and terms that fit in a core's cache.
const ROWS_AT_ONCE: usize = 16;
const PANELS_AT_ONCE: usize = 16;
const TERMS_AT_ONCE: usize = 512;

/// The operand with the lanes. Contains the values of adjacent lanes for each term.
pub(super) struct Panels {
    panels: Vec<Vec<[f64; LANES]>>,
    lanes: usize,
}

impl Panels {
    /// Reads the values. `value` receives a term and a lane.
    pub(super) fn new(terms: usize, lanes: usize, value: impl Fn(usize, usize) -> f64 + Sync) -> Self {
        let panel = |panel: usize| {
            let values = |term| {
                let mut values = [0.0; LANES];
                let lanes = panel * LANES..lanes;
                values.iter_mut().zip(lanes).for_each(|(to, lane)| *to = value(term, lane));
                values
            };
            (0..terms).into_par_iter().with_min_len(TERMS_AT_ONCE).map(values).collect()
        };
        Panels { panels: (0..lanes.div_ceil(LANES)).into_par_iter().map(panel).collect(), lanes }
    }
}

/// The products of a row: all combinations of outer and inner offsets, where the inner ones vary fastest.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) outer: &'a [Offsets],
    pub(super) inner: &'a [Offsets],
}

/// The distances of a term from the start of the row and from the first term of the panels.
#[derive(Clone, Copy)]
pub(super) struct Offsets {
    pub(super) row: usize,
    pub(super) panel: usize,
}

impl<'a> Terms<'a> {
    fn iter(self) -> impl Iterator<Item = Offsets> + use<'a> {
        let add = |outer: Offsets, inner: &Offsets| Offsets {
            row: outer.row.wrapping_add(inner.row),
            panel: outer.panel + inner.panel,
        };
        self.outer.iter().flat_map(move |outer| self.inner.iter().map(move |inner| add(*outer, inner)))
    }
}

pub(super) fn offsets(count: usize, row: usize, panel: usize) -> Vec<Offsets> {
    (0..count).map(|at| Offsets { row: at * row, panel: at * panel }).collect()
}

#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) start: usize,
    pub(super) sum: usize,
}

/// The sums, which threads set in any order.
pub(super) struct Sums(Vec<AtomicU64>);

impl Sums {
    pub(super) fn new(count: usize) -> Self {
        Sums((0..count).into_par_iter().map(|_| AtomicU64::new(0)).collect())
    }

    fn set(&self, index: usize, value: f64) {
        if let Some(sum) = self.0.get(index) {
            sum.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    pub(super) fn into_values(self) -> Vec<f64> {
        self.0.into_par_iter().map(|bits| f64::from_bits(bits.into_inner())).collect()
    }

    /// Computes the sums of rows with all lanes. Adjacent sums of a row are `stride` apart.
    pub(super) fn add(&self, values: &[f64], rows: &[Row], terms: Terms<'_>, panels: &Panels, stride: usize) {
        rows.par_chunks(ROWS_AT_ONCE).for_each(|rows| {
            panels.panels.par_chunks(PANELS_AT_ONCE).enumerate().for_each(|(number, group)| {
                let first = number * PANELS_AT_ONCE * LANES;
                let blocks = sums(values, rows, terms, group);
                for (panel, blocks) in blocks.chunks(rows.len().div_ceil(ROWS)).enumerate() {
                    for (row, sums) in rows.iter().zip(blocks.iter().flatten()) {
                        let lanes = first + panel * LANES..panels.lanes;
                        lanes.zip(sums).for_each(|(lane, sum)| self.set(row.sum + lane * stride, *sum));
                    }
                }
            });
        });
    }
}

/// Returns products of matrices, each with this number of rows, terms and lanes. The first operand has strides for rows
/// and terms, and the second one for terms and lanes. `planes` returns where the operands of a product begin.
pub(super) fn matrix_products(
    count: usize,
    [rows, terms, lanes]: [usize; 3],
    (a, [row_stride, a_term_stride]): (&Array, [usize; 2]),
    (b, [b_term_stride, lane_stride]): (&Array, [usize; 2]),
    planes: impl Fn(usize) -> [usize; 2] + Sync,
) -> Vec<f64> {
    let sums = Sums::new(count * rows * lanes);
    let all_terms = Terms { outer: &offsets(1, 0, 0), inner: &offsets(terms, a_term_stride, 1) };
    (0..count).into_par_iter().for_each(|matrix| {
        let [a_plane, b_plane] = planes(matrix);
        let value = |term, lane| b.get(b_plane + term * b_term_stride + lane * lane_stride);
        let panels = Panels::new(terms, lanes, value);
        let row = |row| Row { start: a_plane + row * row_stride, sum: (matrix * rows + row) * lanes };
        sums.add(&a.values, &(0..rows).map(row).collect::<Vec<_>>(), all_terms, &panels, 1);
    });
    sums.into_values()
}

type Block = [[f64; LANES]; ROWS];

/// Returns the sums of these rows with these panels, as blocks of rows for each panel.
fn sums(values: &[f64], rows: &[Row], terms: Terms<'_>, panels: &[Vec<[f64; LANES]>]) -> Vec<Block> {
    let add_products = vectorized();
    let row_blocks = rows.len().div_ceil(ROWS);
    let mut sums = vec![[[0.0; LANES]; ROWS]; panels.len() * row_blocks];
    let mut packed = vec![[0.0; ROWS]; row_blocks * TERMS_AT_ONCE];
    let mut left = terms.iter();
    let mut terms = Vec::with_capacity(TERMS_AT_ONCE);
    loop {
        terms.clear();
        terms.extend(left.by_ref().take(TERMS_AT_ONCE));
        if terms.is_empty() {
            return sums;
        }
        for (rows, packed) in rows.chunks(ROWS).zip(packed.chunks_mut(TERMS_AT_ONCE)) {
            for (packed, term) in packed.iter_mut().zip(&terms) {
                for (value, row) in packed.iter_mut().zip(rows) {
                    *value = values.get(row.start.wrapping_add(term.row)).copied().unwrap_or(f64::NAN);
                }
            }
        }
        for (panel, sums) in panels.iter().zip(sums.chunks_mut(row_blocks)) {
            for (sums, packed) in sums.iter_mut().zip(packed.chunks(TERMS_AT_ONCE)) {
                add_products(sums, packed, &terms, panel);
            }
        }
    }
}

type AddProducts = fn(&mut Block, &[[f64; ROWS]], &[Offsets], &[[f64; LANES]]);

#[inline(always)]
fn add_products(sums: &mut Block, rows: &[[f64; ROWS]], terms: &[Offsets], panel: &[[f64; LANES]]) {
    let mut block = *sums;
    for (values, term) in rows.iter().zip(terms) {
        let Some(lanes) = panel.get(term.panel) else { break };
        for (sums, value) in block.iter_mut().zip(values) {
            sums.iter_mut().zip(lanes).for_each(|(sum, lane)| *sum += value * lane);
        }
    }
    *sums = block;
}

/// Returns [`add_products`] for the vector instructions of this processor. All variants return the same bits.
fn vectorized() -> AddProducts {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn avx2(sums: &mut Block, rows: &[[f64; ROWS]], terms: &[Offsets], panel: &[[f64; LANES]]) {
            add_products(sums, rows, terms, panel);
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions.
            return |sums, rows, terms, panel| unsafe { avx2(sums, rows, terms, panel) };
        }
    }
    add_products
}

#[cfg(test)]
mod tests {
    use super::super::super::data::value;
    use super::super::super::request::DataSet;
    use super::*;

    /// Extents that are not multiples of the block sizes.
    #[test]
    fn sums_have_the_bits_of_sequential_sums() {
        let (rows, lanes, inner, outer) = (2 * ROWS_AT_ONCE + 3, PANELS_AT_ONCE * LANES + 5, 3, TERMS_AT_ONCE / 2);
        let terms = inner * outer;
        let [a, b] = [rows * terms, terms * lanes]
            .map(|count| (0..count as u64).map(|index| value(DataSet::Normal, 7, index)).collect::<Vec<_>>());
        let panels = Panels::new(terms, lanes, |term, lane| b[term * lanes + lane]);
        let all = Terms { outer: &offsets(outer, inner, inner), inner: &offsets(inner, 1, 1) };
        let places: Vec<Row> = (0..rows).map(|row| Row { start: row * terms, sum: row * lanes }).collect();
        let sums = Sums::new(rows * lanes);
        sums.add(&a, &places, all, &panels, 1);
        for (index, sum) in sums.into_values().into_iter().enumerate() {
            let (row, lane) = (index / lanes, index % lanes);
            let expected = (0..terms).fold(0.0, |sum, term| sum + a[row * terms + term] * b[term * lanes + lane]);
            assert_eq!(sum.to_bits(), expected.to_bits(), "row {row}, lane {lane}");
        }
    }

    #[test]
    fn all_processors_return_the_same_bits() {
        let lanes = |term: u64| std::array::from_fn(|lane| value(DataSet::Normal, lane as u64, term));
        let rows: Vec<[f64; ROWS]> =
            (0..100).map(|term| std::array::from_fn(|row| 1.0 / (row + term + 1) as f64)).collect();
        let terms: Vec<Offsets> = (0..100).map(|panel| Offsets { row: 0, panel }).collect();
        let panel: Vec<[f64; LANES]> = (0..100).map(lanes).collect();
        let mut blocks = [[[1.0; LANES]; ROWS]; 2];
        let [simple, vector] = &mut blocks;
        add_products(simple, &rows, &terms, &panel);
        vectorized()(vector, &rows, &terms, &panel);
        assert_eq!(simple, vector);
    }
}
