//! Rows into the columns of a Parquet file.
//!
//! A column has its values, and, where values can be missing or many, the definition and
//! repetition levels of the format (<https://parquet.apache.org/docs/file-format/nestedencoding/>).
//! Lists have the three levels that the format prescribes; none is in another.

use std::sync::Arc;

use parquet::basic::{Compression, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescriptor, Type};

use super::schema::SCHEMA;
use crate::error::ArrayError;

/// Level of compression: a tenth smaller than the fastest at half of its speed.
const ZSTD_LEVEL: i32 = 3;

fn failed(error: &ParquetError) -> ArrayError {
    ArrayError::Export { cause: error.to_string() }
}

/// One column of the row group that is being filled.
struct Column {
    values: Values,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    /// Definition level of a value that is there.
    there: i16,
    is_list: bool,
}

enum Values {
    Text(Vec<ByteArray>),
    Long(Vec<i64>),
    Int(Vec<i32>),
    Real(Vec<f64>),
}

/// A file in memory.
pub(super) struct FileWriter {
    file: SerializedFileWriter<Vec<u8>>,
    columns: Vec<Column>,
    rows: usize,
    rows_in_group: usize,
    rows_per_group: usize,
}

impl FileWriter {
    pub(super) fn new(rows_per_group: usize) -> Result<Self, ArrayError> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(|error| failed(&error))?);
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(|error| failed(&error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(concat!("gauntlet ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let columns = columns(&schema);
        let file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties));
        let file = file.map_err(|error| failed(&error))?;
        Ok(FileWriter { file, columns, rows: 0, rows_in_group: 0, rows_per_group })
    }

    /// Messages so far.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row: `fill` gives a value to each column in turn.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut Cells<'_>)) -> Result<(), ArrayError> {
        let mut cells = Cells { columns: &mut self.columns, at: 0, repetition: 0 };
        fill(&mut cells);
        debug_assert_eq!(cells.at, self.columns.len(), "each column has a value");
        self.rows += 1;
        self.rows_in_group += 1;
        if self.rows_in_group >= self.rows_per_group { self.end_group() } else { Ok(()) }
    }

    /// The bytes of the file.
    pub(super) fn finish(mut self) -> Result<Vec<u8>, ArrayError> {
        if self.rows_in_group > 0 {
            self.end_group()?;
        }
        self.file.into_inner().map_err(|error| failed(&error))
    }

    fn end_group(&mut self) -> Result<(), ArrayError> {
        let mut group = self.file.next_row_group().map_err(|error| failed(&error))?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(|error| failed(&error))? else {
                break;
            };
            column.write(&mut writer).map_err(|error| failed(&error))?;
            writer.close().map_err(|error| failed(&error))?;
        }
        group.close().map_err(|error| failed(&error))?;
        self.rows_in_group = 0;
        Ok(())
    }
}

fn columns(schema: &Arc<Type>) -> Vec<Column> {
    let described = SchemaDescriptor::new(schema.clone());
    let column = |leaf: &parquet::schema::types::ColumnDescPtr| Column {
        values: match leaf.physical_type() {
            Physical::INT64 => Values::Long(Vec::new()),
            Physical::INT32 => Values::Int(Vec::new()),
            Physical::DOUBLE => Values::Real(Vec::new()),
            _ => Values::Text(Vec::new()),
        },
        definitions: Vec::new(),
        repetitions: Vec::new(),
        there: leaf.max_def_level(),
        is_list: leaf.max_rep_level() > 0,
    };
    described.columns().iter().map(column).collect()
}

impl Column {
    /// Writes what was gathered, and forgets it.
    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let definitions = (self.there > 0).then_some(self.definitions.as_slice());
        let repetitions = self.is_list.then_some(self.repetitions.as_slice());
        match &mut self.values {
            Values::Text(values) => {
                let writer = writer.typed::<ByteArrayType>();
                writer.write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Long(values) => {
                writer.typed::<Int64Type>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Int(values) => {
                writer.typed::<Int32Type>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Real(values) => {
                writer.typed::<DoubleType>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
        }
        self.definitions.clear();
        self.repetitions.clear();
        Ok(())
    }
}

/// The cells of a row, from left to right.
pub(super) struct Cells<'c> {
    columns: &'c mut [Column],
    at: usize,
    /// 1 for the second item of a list and later ones.
    repetition: i16,
}

impl Cells<'_> {
    pub(super) fn text(&mut self, text: &str) {
        self.optional_text(Some(text));
    }

    pub(super) fn optional_text(&mut self, text: Option<&str>) {
        if let (Some(Values::Text(values)), Some(text)) = (self.next(text.is_some()), text) {
            values.push(ByteArray::from(text.as_bytes().to_vec()));
        }
    }

    pub(super) fn long(&mut self, number: i64) {
        self.optional_long(Some(number));
    }

    pub(super) fn optional_long(&mut self, number: Option<i64>) {
        if let (Some(Values::Long(values)), Some(number)) = (self.next(number.is_some()), number) {
            values.push(number);
        }
    }

    pub(super) fn int(&mut self, number: i32) {
        if let Some(Values::Int(values)) = self.next(true) {
            values.push(number);
        }
    }

    pub(super) fn real(&mut self, number: f64) {
        self.optional_real(Some(number));
    }

    pub(super) fn optional_real(&mut self, number: Option<f64>) {
        if let (Some(Values::Real(values)), Some(number)) = (self.next(number.is_some()), number) {
            values.push(number);
        }
    }

    /// A list whose items have so many columns; `fill` gives a value to each of one item.
    pub(super) fn list<T>(
        &mut self,
        width: usize,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(&mut Self, T),
    ) {
        let begin = self.at;
        for item in items {
            self.at = begin;
            fill(self, item);
            debug_assert_eq!(self.at, begin + width, "each column of an item has a value");
            self.repetition = 1;
        }
        if self.repetition == 0 {
            for column in self.columns.iter_mut().skip(begin).take(width) {
                column.definitions.push(0);
                column.repetitions.push(0);
            }
        }
        self.repetition = 0;
        self.at = begin + width;
    }

    /// Goes to the next column, and notes its levels.
    fn next(&mut self, is_there: bool) -> Option<&mut Values> {
        let column = self.columns.get_mut(self.at)?;
        self.at += 1;
        column.definitions.push(column.there - i16::from(!is_there));
        column.repetitions.push(self.repetition);
        Some(&mut column.values)
    }
}
