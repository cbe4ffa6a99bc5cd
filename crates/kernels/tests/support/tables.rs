//! Random tables in splits of batches, with the results that the kernels must give.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;
use exoshuffle_kernels::{sample, Position, RowLayout, SortKey};
use proptest::prelude::*;

use super::columns::{column, payload_types, sortable_types, Random};
use super::oracle::{compare_rows, Value};

/// A random table in splits of batches, and the same rows as values.
pub struct Table {
    pub schema: SchemaRef,
    pub keys: Vec<SortKey>,
    pub splits: Vec<Vec<RecordBatch>>,
    pub rows: Vec<(Vec<Value>, Position)>,
}

#[derive(Debug, Clone)]
pub struct Shape {
    pub seed: u64,
    pub key_columns: usize,
    pub columns: usize,
    pub nested: bool,
    pub splits: usize,
    pub rows: usize,
    pub distinct: usize,
    pub partitions: usize,
}

pub fn shape() -> impl Strategy<Value = Shape> {
    let counts = (0usize..4, 1usize..4, any::<bool>());
    let sizes = (
        1usize..4,
        prop_oneof![0usize..40, 1000usize..2500],
        prop_oneof![1usize..4, 50usize..3000],
        1usize..9,
    );
    (any::<u64>(), counts, sizes).prop_map(
        |(seed, (key_columns, columns, nested), (splits, rows, distinct, partitions))| Shape {
            seed,
            key_columns,
            columns,
            nested,
            splits,
            rows,
            distinct,
            partitions,
        },
    )
}

pub fn table(shape: &Shape) -> Table {
    let random = &mut Random(shape.seed);
    let (sortable, payload) = (sortable_types(), payload_types());
    let mut fields = Vec::new();
    for i in 0..shape.key_columns + shape.columns {
        fields.push(Field::new(
            format!("c{i}"),
            sortable[random.below(sortable.len())].clone(),
            random.below(2) == 0,
        ));
    }
    if shape.nested {
        fields.push(Field::new(
            "nested",
            payload[random.below(payload.len())].clone(),
            random.below(2) == 0,
        ));
    }
    // The null type is null whatever the field says.
    let fields = fields.into_iter().map(|f| {
        if f.data_type() == &DataType::Null {
            f.with_nullable(true)
        } else {
            f
        }
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut keys: Vec<SortKey> = (0..shape.key_columns)
        .map(|column| SortKey {
            column,
            descending: random.below(2) == 0,
            nulls_first: random.below(2) == 0,
        })
        .collect();
    keys.reverse();

    let (mut splits, mut rows) = (Vec::new(), Vec::new());
    for split in 0..shape.splits {
        let mut batches = Vec::new();
        let mut position = Position {
            split: split as u32,
            row: 0,
        };
        for count in [shape.rows / 3, 0, shape.rows - shape.rows / 3] {
            let columns: Vec<(ArrayRef, Vec<Value>)> = schema
                .fields()
                .iter()
                .map(|f| {
                    column(
                        f.data_type(),
                        f.is_nullable(),
                        count,
                        shape.distinct,
                        random,
                    )
                })
                .collect();
            for row in 0..count {
                rows.push((
                    columns
                        .iter()
                        .map(|(_, values)| values[row].clone())
                        .collect(),
                    position,
                ));
                position.row += 1;
            }
            let arrays = columns.into_iter().map(|(array, _)| array).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            batches.push(
                RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).unwrap(),
            );
        }
        splits.push(batches);
    }
    Table {
        schema,
        keys,
        splits,
        rows,
    }
}

impl Table {
    pub fn layout(&self) -> RowLayout {
        RowLayout::try_new(&self.schema, &self.keys).unwrap()
    }

    /// Returns every `step`-th row of every split as a sample.
    pub fn samples(&self, layout: &RowLayout, step: usize) -> Vec<Vec<u8>> {
        let sample_split = |(split, batches): (usize, &Vec<RecordBatch>)| {
            let all = concat_batches(&self.schema, batches).unwrap();
            let places: Vec<(usize, usize)> = (0..all.num_rows())
                .step_by(step)
                .map(|row| (0, row))
                .collect();
            let positions: Vec<Position> = places
                .iter()
                .map(|&(_, row)| Position {
                    split: split as u32,
                    row: row as u64,
                })
                .collect();
            let keys = interleave_record_batch(&[&all], &places)
                .unwrap()
                .project(layout.key_columns())
                .unwrap();
            sample(&layout.key_layout(), &keys, &positions).unwrap()
        };
        self.splits.iter().enumerate().map(sample_split).collect()
    }

    /// Returns the positions of the boundaries that evenly spaced samples must give, with their rows.
    pub fn expected_boundaries(
        &self,
        step: usize,
        partitions: usize,
    ) -> Vec<&(Vec<Value>, Position)> {
        let mut samples: Vec<_> = self
            .rows
            .iter()
            .filter(|(_, p)| p.row % step as u64 == 0)
            .collect();
        samples.sort_by(|a, b| compare_rows(&self.keys, &a.0, &b.0).then(a.1.cmp(&b.1)));
        match samples.len() {
            0 => Vec::new(),
            n => (1..partitions)
                .map(|i| samples[i * n / partitions])
                .collect(),
        }
    }

    /// Returns all rows in a stable sort's order.
    pub fn sorted(&self) -> RecordBatch {
        let all = concat_batches(&self.schema, self.splits.iter().flatten()).unwrap();
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|&a, &b| compare_rows(&self.keys, &self.rows[a].0, &self.rows[b].0));
        let order: Vec<(usize, usize)> = order.into_iter().map(|row| (0, row)).collect();
        interleave_record_batch(&[&all], &order).unwrap()
    }
}
