//! The tables for programs that read columns: Parquet, compressed with Snappy.
//!
//! * Runs: `experiment`, a column for each parameter (text), `seed`, a column for each measure (double, null where the
//!   run has none).
//! * Series: `experiment`, parameters, `seed`, `time` (seconds), `flow` (null where the series is not a flow's),
//!   `name`, `value`; of the runs whose courses were kept.

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use super::Chapter;
use super::csv::{Columns, rows};
use crate::run::{Outcome, Series};

/// Rows written at once.
const GROUP: usize = 1 << 18;

/// Why a table could not be written.
#[derive(Debug)]
pub struct TableError(ParquetError);

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for TableError {}

impl From<ParquetError> for TableError {
    fn from(error: ParquetError) -> TableError {
        TableError(error)
    }
}

/// Writes the table of runs.
///
/// # Errors
/// `into` takes no more.
pub fn runs(chapters: &[Chapter<'_>], into: impl Write + Send) -> Result<(), TableError> {
    let columns = Columns::of(chapters);
    let mut fields = named(&columns.parameters)?;
    for name in &columns.measures {
        fields.push(Arc::new(number(name, Physical::DOUBLE, Repetition::OPTIONAL)?));
    }
    let mut file = open(fields, into)?;
    let all: Vec<(&str, &Outcome)> = rows(chapters).collect();
    for group in all.chunks(GROUP) {
        let mut writer = file.next_row_group()?;
        write_names(&mut writer, &columns.parameters, group.iter().copied())?;
        for name in &columns.measures {
            let values = group.iter().map(|(_, outcome)| outcome.measures.get(*name).copied());
            write_optional::<DoubleType>(&mut writer, values)?;
        }
        writer.close()?;
    }
    file.close()?;
    Ok(())
}

/// A point of a course.
struct Sample<'a> {
    run: (&'a str, &'a Outcome),
    time: f64,
    flow: Option<i32>,
    name: &'a str,
    value: f64,
}

/// Writes the series.
///
/// # Errors
/// `into` takes no more.
pub fn series(chapters: &[Chapter<'_>], into: impl Write + Send) -> Result<(), TableError> {
    let columns = Columns::of(chapters);
    let mut fields = named(&columns.parameters)?;
    fields.push(Arc::new(number("time", Physical::DOUBLE, Repetition::REQUIRED)?));
    fields.push(Arc::new(number("flow", Physical::INT32, Repetition::OPTIONAL)?));
    fields.push(Arc::new(text("name", Repetition::REQUIRED)?));
    fields.push(Arc::new(number("value", Physical::DOUBLE, Repetition::REQUIRED)?));
    let mut file = open(fields, into)?;
    for chapter in chapters {
        for outcome in chapter.outcomes {
            // Of one run after the other, for all of them may be more than fits into memory.
            let courses =
                chapter.courses(outcome).map_err(|error| ParquetError::External(Box::new(error)))?;
            let mut samples = samples((&chapter.experiment.name, outcome), &courses);
            loop {
                let group: Vec<Sample<'_>> = samples.by_ref().take(GROUP).collect();
                if group.is_empty() {
                    break;
                }
                write_samples(file.next_row_group()?, &columns.parameters, &group)?;
            }
        }
    }
    file.close()?;
    Ok(())
}

fn write_samples<W: Write + Send>(
    mut writer: SerializedRowGroupWriter<'_, W>,
    parameters: &[&str],
    group: &[Sample<'_>],
) -> Result<(), TableError> {
    write_names(&mut writer, parameters, group.iter().map(|sample| sample.run))?;
    write::<DoubleType>(&mut writer, group.iter().map(|sample| sample.time))?;
    write_optional::<Int32Type>(&mut writer, group.iter().map(|sample| sample.flow))?;
    write::<ByteArrayType>(&mut writer, group.iter().map(|sample| ByteArray::from(sample.name)))?;
    write::<DoubleType>(&mut writer, group.iter().map(|sample| sample.value))?;
    writer.close()?;
    Ok(())
}

fn samples<'a>(
    run: (&'a str, &'a Outcome),
    courses: &'a BTreeMap<String, Series>,
) -> impl Iterator<Item = Sample<'a>> {
    courses.iter().flat_map(move |(name, course)| {
        let (name, flow) = split(name);
        course.iter().map(move |(time, value)| Sample { run, time: *time, flow, name, value: *value })
    })
}

/// `cwnd 2` is the series `cwnd` of flow 2.
fn split(name: &str) -> (&str, Option<i32>) {
    let parts = name.rsplit_once(' ').and_then(|(name, flow)| Some((name, flow.parse().ok()?)));
    parts.map_or((name, None), |(name, flow)| (name, Some(flow)))
}

fn open<W: Write + Send>(fields: Vec<Arc<Type>>, into: W) -> Result<SerializedFileWriter<W>, TableError> {
    let schema = Type::group_type_builder("rows").with_fields(fields).build()?;
    let by = concat!("millstream ", env!("CARGO_PKG_VERSION"));
    let properties =
        WriterProperties::builder().set_compression(Compression::SNAPPY).set_created_by(by.into()).build();
    Ok(SerializedFileWriter::new(into, Arc::new(schema), Arc::new(properties))?)
}

/// The columns that name a run.
fn named(parameters: &[&str]) -> Result<Vec<Arc<Type>>, TableError> {
    let mut fields = vec![Arc::new(text("experiment", Repetition::REQUIRED)?)];
    for name in parameters {
        fields.push(Arc::new(text(name, Repetition::OPTIONAL)?));
    }
    fields.push(Arc::new(number("seed", Physical::INT64, Repetition::REQUIRED)?));
    Ok(fields)
}

fn text(name: &str, repetition: Repetition) -> Result<Type, TableError> {
    let field = Type::primitive_type_builder(name, Physical::BYTE_ARRAY);
    Ok(field.with_logical_type(Some(LogicalType::String)).with_repetition(repetition).build()?)
}

fn number(name: &str, kind: Physical, repetition: Repetition) -> Result<Type, TableError> {
    Ok(Type::primitive_type_builder(name, kind).with_repetition(repetition).build()?)
}

fn write_names<'a, W: Write + Send>(
    writer: &mut SerializedRowGroupWriter<'_, W>,
    parameters: &[&str],
    runs: impl Iterator<Item = (&'a str, &'a Outcome)> + Clone,
) -> Result<(), TableError> {
    write::<ByteArrayType>(writer, runs.clone().map(|(experiment, _)| ByteArray::from(experiment)))?;
    for name in parameters {
        let values = runs.clone().map(|(_, outcome)| outcome.point.get(*name));
        write_optional::<ByteArrayType>(writer, values.map(|value| Some(ByteArray::from(value?.as_str()))))?;
    }
    write::<Int64Type>(writer, runs.map(|(_, outcome)| outcome.seed as i64))
}

/// Writes the next column.
fn write<T: DataType>(
    writer: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: impl Iterator<Item = T::T>,
) -> Result<(), TableError> {
    put::<T>(writer, values.collect(), None)
}

/// Writes a column with gaps.
fn write_optional<T: DataType>(
    writer: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), TableError> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    put::<T>(writer, values.into_iter().flatten().collect(), Some(&levels))
}

fn put<T: DataType>(
    writer: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), TableError> {
    let mut column = writer.next_column()?.expect("a column for each field of the schema");
    column.typed::<T>().write_batch(&values, levels, None)?;
    Ok(column.close()?)
}

#[cfg(test)]
mod tests;
