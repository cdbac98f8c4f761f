//! Values of statements that know their types.
//!
//! With the types said a statement is one exchange with the server: it need not be asked first what
//! it takes the values for. Far from the database that halves the time of a page.

use tokio_postgres::types::{ToSql, Type};

/// A value whose type in PostgreSQL is known.
pub trait Typed: Sync {
    /// The value and its type.
    fn typed(&self) -> (&(dyn ToSql + Sync), Type);
}

/// A value of a statement.
pub type Value<'a> = &'a dyn Typed;

/// Values as the driver takes them.
pub(crate) fn all_typed<'a>(values: &[Value<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| value.typed()).collect()
}

macro_rules! typed {
    ($($of:ty => $name:ident),* $(,)?) => {
        $(impl Typed for $of {
            fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                (self, Type::$name)
            }
        })*
    };
}

typed! {
    bool => BOOL,
    i16 => INT2,
    i32 => INT4,
    i64 => INT8,
    &str => TEXT,
    String => TEXT,
    &[u8] => BYTEA,
    Vec<u8> => BYTEA,
    Option<f64> => FLOAT8,
    Option<i64> => INT8,
    Option<&str> => TEXT,
    Vec<i16> => INT2_ARRAY,
    Vec<i32> => INT4_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
    Vec<Vec<u8>> => BYTEA_ARRAY,
    &[i16] => INT2_ARRAY,
    &[i32] => INT4_ARRAY,
    &[i64] => INT8_ARRAY,
    &[String] => TEXT_ARRAY,
}
