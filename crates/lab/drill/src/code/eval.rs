//! Statements to truth.

use super::parse::{Expr, Statement};
use super::value::{Value, format};
use std::collections::HashMap;

/// Longest text an expression may make.
const TEXT_MAX: usize = 1 << 16;

/// Values of names: the script's own names first, then the connection's.
pub struct Names<'a> {
    /// Names that the script assigned.
    pub own: &'a mut HashMap<String, Value>,
    /// Everything else.
    pub lookup: &'a dyn Fn(&str) -> Option<Value>,
}

/// Why a run ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// An assertion does not hold; with its message.
    Assertion(String),
    /// A name that nothing knows.
    UnknownName(String),
    /// Something that cannot be computed.
    Error(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Assertion(message) => write!(f, "assertion failed: {message}"),
            Failure::UnknownName(name) => write!(f, "no such name: {name}"),
            Failure::Error(what) => f.write_str(what),
        }
    }
}

type Result<T> = std::result::Result<T, Failure>;

fn error<T>(what: impl Into<String>) -> Result<T> {
    Err(Failure::Error(what.into()))
}

/// Runs statements in order; what they print goes to `printed`.
///
/// # Errors
/// The first assertion that does not hold, or statement that cannot be run.
pub fn run(statements: &[Statement], names: &mut Names<'_>, printed: &mut Vec<String>) -> Result<()> {
    for statement in statements {
        match statement {
            Statement::Assert(condition, message) => {
                if !eval(condition, names, printed)?.truth() {
                    let message = match message {
                        Some(message) => eval(message, names, printed)?.to_string(),
                        None => String::new(),
                    };
                    return Err(Failure::Assertion(explain(condition, names, printed, message)));
                }
            }
            Statement::Assign(name, operator, value) => {
                let mut value = eval(value, names, printed)?;
                if let Some(operator) = operator {
                    let before = eval(&Expr::Name(name.clone()), names, printed)?;
                    value = binary(operator, &before, &value)?;
                }
                names.own.insert(name.clone(), value);
            }
            Statement::Do(expr) => {
                eval(expr, names, printed)?;
            }
        }
    }
    Ok(())
}

/// A comparison that failed shows its sides; the script's message follows.
fn explain(condition: &Expr, names: &mut Names<'_>, printed: &mut Vec<String>, message: String) -> String {
    let mut sides = Vec::new();
    if let Expr::Compare(first, rest) = condition {
        for side in std::iter::once(&**first).chain(rest.iter().map(|(_, side)| side)) {
            if let (Expr::Name(name), Ok(value)) = (side, eval(side, names, printed)) {
                sides.push(format!("{name} = {value}"));
            }
        }
    }
    if !message.is_empty() {
        sides.push(message);
    }
    sides.join("; ")
}

fn eval(expr: &Expr, names: &mut Names<'_>, printed: &mut Vec<String>) -> Result<Value> {
    Ok(match expr {
        Expr::Int(v) => Value::Int(*v),
        Expr::Float(v) => Value::Float(*v),
        Expr::Text(text) => Value::Text(text.clone()),
        Expr::Name(name) => return named(name, names),
        Expr::Tuple(all) => Value::Tuple(list(all, names, printed)?),
        Expr::Call(name, arguments) => return call(name, &list(arguments, names, printed)?, printed),
        Expr::Unary(op, value) => return unary(op, &eval(value, names, printed)?),
        Expr::Binary("and", left, right) => {
            let left = eval(left, names, printed)?;
            if left.truth() { eval(right, names, printed)? } else { left }
        }
        Expr::Binary("or", left, right) => {
            let left = eval(left, names, printed)?;
            if left.truth() { left } else { eval(right, names, printed)? }
        }
        Expr::Binary(op, left, right) => {
            let left = eval(left, names, printed)?;
            return binary(op, &left, &eval(right, names, printed)?);
        }
        Expr::Compare(first, rest) => {
            let mut left = eval(first, names, printed)?;
            for (op, right) in rest {
                let right = eval(right, names, printed)?;
                if !compare(op, &left, &right)? {
                    return Ok(Value::Bool(false));
                }
                left = right;
            }
            Value::Bool(true)
        }
        Expr::If(condition, yes, no) => {
            let branch = if eval(condition, names, printed)?.truth() { yes } else { no };
            return eval(branch, names, printed);
        }
    })
}

fn list(all: &[Expr], names: &mut Names<'_>, printed: &mut Vec<String>) -> Result<Vec<Value>> {
    all.iter().map(|expr| eval(expr, names, printed)).collect()
}

fn named(name: &str, names: &Names<'_>) -> Result<Value> {
    if let Some(value) = names.own.get(name) {
        return Ok(value.clone());
    }
    match name {
        "True" => Ok(Value::Bool(true)),
        "False" => Ok(Value::Bool(false)),
        "None" => Ok(Value::None),
        _ => (names.lookup)(name).ok_or_else(|| Failure::UnknownName(name.into())),
    }
}

fn call(name: &str, arguments: &[Value], printed: &mut Vec<String>) -> Result<Value> {
    let number = |value: &Value| match value.float() {
        Some(number) => Ok(number),
        None => error(format!("{name}() of {}", value.kind())),
    };
    match (name, arguments) {
        ("print", all) => {
            printed.push(all.iter().map(Value::to_string).collect::<Vec<_>>().join(" "));
            Ok(Value::None)
        }
        ("abs", [one]) if number(one)? < 0.0 => unary("-", one),
        ("abs", [one]) => Ok(one.clone()),
        ("int", [Value::Text(text)]) => {
            text.trim().parse().map(Value::Int).or_else(|_| error(format!("int('{text}')")))
        }
        ("int", [one]) => Ok(Value::Int(one.int().unwrap_or(number(one)? as i128))),
        ("float", [one]) => Ok(Value::Float(number(one)?)),
        ("round", [one]) => Ok(Value::Int(number(one)?.round() as i128)),
        ("str", [one]) => Ok(Value::Text(one.to_string())),
        ("len", [Value::Text(text)]) => Ok(Value::Int(text.chars().count() as i128)),
        ("len", [Value::Tuple(all)]) => Ok(Value::Int(all.len() as i128)),
        ("min" | "max", [first, rest @ ..]) => {
            let mut best = first;
            for value in rest {
                if (number(value)? < number(best)?) == (name == "min") {
                    best = value;
                }
            }
            Ok(best.clone())
        }
        _ => error(format!("no function {name}() of {} arguments", arguments.len())),
    }
}

fn unary(op: &str, value: &Value) -> Result<Value> {
    match (op, value.int(), value.float()) {
        ("not", ..) => Ok(Value::Bool(!value.truth())),
        ("-", Some(v), _) => v.checked_neg().map(Value::Int).map_or_else(|| error("too large"), Ok),
        ("-", None, Some(v)) => Ok(Value::Float(-v)),
        ("+", _, Some(_)) => Ok(value.clone()),
        ("~", Some(v), _) => Ok(Value::Int(!v)),
        _ => error(format!("`{op}` of {}", value.kind())),
    }
}

fn compare(op: &str, left: &Value, right: &Value) -> Result<bool> {
    let order = match (left, right) {
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        _ => match (left.int(), right.int(), left.float(), right.float()) {
            (Some(a), Some(b), ..) => Some(a.cmp(&b)),
            (_, _, Some(a), Some(b)) => a.partial_cmp(&b),
            _ if op == "==" => return Ok(left == right),
            _ if op == "!=" => return Ok(left != right),
            _ => return error(format!("{} {op} {}", left.kind(), right.kind())),
        },
    };
    // Not a number compares with nothing.
    let Some(order) = order else { return Ok(op == "!=") };
    Ok(match op {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn binary(op: &str, left: &Value, right: &Value) -> Result<Value> {
    if let (Value::Text(text), "%") = (left, op) {
        return format(text, right).map(Value::Text).map_err(Failure::Error);
    }
    if let (Value::Text(a), Value::Text(b), "+") = (left, right, op) {
        if a.len() + b.len() > TEXT_MAX {
            return error("a text of more than 64 KiB");
        }
        return Ok(Value::Text(format!("{a}{b}")));
    }
    if let (Some(a), Some(b)) = (left.int(), right.int())
        && let Some(result) = whole(op, a, b)?
    {
        return Ok(result);
    }
    match (left.float(), right.float()) {
        (Some(a), Some(b)) => real(op, a, b),
        _ => error(format!("{} {op} {}", left.kind(), right.kind())),
    }
}

/// `None` where the result is no whole number.
fn whole(op: &str, a: i128, b: i128) -> Result<Option<Value>> {
    let shift = || u32::try_from(b).ok().filter(|&by| by < 127);
    let result = match op {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "&" => Some(a & b),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "<<" => shift().and_then(|by| a.checked_mul(1 << by)),
        ">>" => shift().map(|by| a >> by),
        "**" if b < 0 => return Ok(None),
        "**" => u32::try_from(b).ok().and_then(|by| a.checked_pow(by)),
        "//" | "%" if b == 0 => return error("division by zero"),
        // Python rounds down; Rust towards zero.
        "//" => a.checked_div_euclid(b).map(|q| if b < 0 && a.rem_euclid(b) != 0 { q - 1 } else { q }),
        "%" => a.checked_rem_euclid(b).map(|r| if b < 0 && r != 0 { r + b } else { r }),
        _ => return Ok(None),
    };
    match result {
        Some(value) => Ok(Some(Value::Int(value))),
        None => error(format!("{a} {op} {b} is too large")),
    }
}

fn real(op: &str, a: f64, b: f64) -> Result<Value> {
    if matches!(op, "/" | "//" | "%") && b == 0.0 {
        return error("division by zero");
    }
    Ok(Value::Float(match op {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        "**" => a.powf(b),
        _ => return error(format!("`{op}` of numbers with a point")),
    }))
}
