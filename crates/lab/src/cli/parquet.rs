//! Repetitions as a Parquet file: the rows and columns of `--rows csv`, with types.

use std::sync::Arc;

use parquet::basic::{LogicalType, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::rows::{Column, Kind, Value, columns};
use crate::record::Record;

/// Rows of a row group, the unit that readers take in parallel: that of `DuckDB`.
const ROW_GROUP_ROWS: usize = 122_880;

/// Returns the file. It is not compressed: equal levels and counts are stored once by dictionaries,
/// and compression would need another library.
pub(super) fn parquet(records: &[Record]) -> Vec<u8> {
    encoded(records).expect("a vector accepts all rows, and all values of a column have its type")
}

fn encoded(records: &[Record]) -> Result<Vec<u8>> {
    let columns = columns(records);
    let fields = columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("repetitions").with_fields(fields).build()?;
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    for rows in records.chunks(ROW_GROUP_ROWS) {
        let mut group = writer.next_row_group()?;
        for column in &columns {
            write(&mut group, column, rows)?;
        }
        group.close()?;
    }
    writer.into_inner()
}

/// Returns the field of a column. Every field may be null.
fn field(column: &Column<'_>) -> Result<Type> {
    let (physical, logical) = match column.kind {
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Kind::Number => (Physical::DOUBLE, None),
    };
    Type::primitive_type_builder(&column.name, physical).with_logical_type(logical).build()
}

fn write(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    column: &Column<'_>,
    rows: &[Record],
) -> Result<()> {
    let values: Vec<Option<Value<'_>>> = rows.iter().map(|record| column.value(record)).collect();
    // Definition levels: 1 for a value, 0 for null.
    let defined: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values = values.into_iter().flatten();
    let mut out = group.next_column()?.expect("the schema has a field for each column");
    match column.kind {
        Kind::Text => {
            let texts: Vec<ByteArray> = values.map(|value| value.to_string().into_bytes().into()).collect();
            out.typed::<ByteArrayType>().write_batch(&texts, Some(&defined), None)?;
        }
        Kind::Count => {
            let count =
                |value| if let Value::Count(count) = value { Some(count.cast_signed()) } else { None };
            let counts: Vec<i64> = values.filter_map(count).collect();
            out.typed::<Int64Type>().write_batch(&counts, Some(&defined), None)?;
        }
        Kind::Number => {
            let number = |value| if let Value::Number(number) = value { Some(number) } else { None };
            let numbers: Vec<f64> = values.filter_map(number).collect();
            out.typed::<DoubleType>().write_batch(&numbers, Some(&defined), None)?;
        }
    }
    out.close()
}
