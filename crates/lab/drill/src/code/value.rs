//! Values of the assertions.

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Nothing.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a point.
    Float(f64),
    /// A text.
    Text(String),
    /// Several.
    Tuple(Vec<Value>),
}

impl Value {
    /// Returns the value's truth as in Python: not zero, not empty.
    pub fn truth(&self) -> bool {
        match self {
            Value::None => false,
            Value::Bool(b) => *b,
            Value::Int(v) => *v != 0,
            Value::Float(v) => *v != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Tuple(all) => !all.is_empty(),
        }
    }

    /// A truth value is a number too.
    pub(super) fn int(&self) -> Option<i128> {
        match self {
            Value::Bool(b) => Some((*b).into()),
            Value::Int(v) => Some(*v),
            _ => None,
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        match self {
            Value::Float(v) => Some(*v),
            _ => self.int().map(|v| v as f64),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::Tuple(_) => "a tuple",
        }
    }

    /// As part of a tuple: texts have their quotes.
    fn quoted(&self) -> String {
        match self {
            Value::Text(text) => format!("'{text}'"),
            other => other.to_string(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(true) => f.write_str("True"),
            Value::Bool(false) => f.write_str("False"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Text(text) => f.write_str(text),
            Value::Tuple(all) => {
                let comma = if all.len() == 1 { "," } else { "" };
                let all: Vec<_> = all.iter().map(Value::quoted).collect();
                write!(f, "({}{comma})", all.join(", "))
            }
        }
    }
}

/// Longest text that a format may make.
const TEXT_MAX: usize = 1 << 16;

/// `text % values`, with %d, %i, %u, %x, %s, %r, %f, %g and %%; widths and flags are read and not obeyed.
pub(super) fn format(text: &str, values: &Value) -> Result<String, String> {
    let mut values = match values {
        Value::Tuple(all) => all.clone(),
        one => vec![one.clone()],
    }
    .into_iter();
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let conversion = chars.by_ref().find(|c| !(c.is_ascii_digit() || "-+ #.l".contains(*c)));
        if conversion == Some('%') {
            out.push('%');
            continue;
        }
        let value = values.next().ok_or("not enough values for the format")?;
        match conversion {
            Some('d' | 'i' | 'u') => match value.float() {
                Some(number) => out.push_str(&value.int().unwrap_or(number as i128).to_string()),
                None => return Err(format!("%d of {}", value.kind())),
            },
            Some('x') => match value.int() {
                Some(number) => out.push_str(&format!("{number:x}")),
                None => return Err(format!("%x of {}", value.kind())),
            },
            Some('f' | 'g') => match value.float() {
                Some(number) => out.push_str(&format!("{number:.6}")),
                None => return Err(format!("%f of {}", value.kind())),
            },
            Some('s') => out.push_str(&value.to_string()),
            Some('r') => out.push_str(&value.quoted()),
            _ => return Err("an unknown conversion in a format".into()),
        }
        if out.len() > TEXT_MAX {
            return Err("a text of more than 64 KiB".into());
        }
    }
    match values.next() {
        Some(_) => Err("too many values for the format".into()),
        None => Ok(out),
    }
}
