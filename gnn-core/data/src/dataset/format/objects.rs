//! What pickles of NumPy, SciPy and PyTorch are made of: the names that a pickle may use, and what
//! their calls stand for.

use std::collections::HashMap;
use std::ops::Range;

use super::pickle::{Id, Pickle, Value};
use crate::Result;
use crate::dataset::Limit;
use crate::dataset::npy::{self, Array, Header};

/// A value that a call made.
#[derive(Debug, Clone)]
pub(super) enum Object {
    /// An element type of NumPy, `<f4` for instance.
    Type(String),
    /// A NumPy array, empty until its state is known.
    Array(Option<Stored>),
    /// A SciPy matrix of compressed rows, and its attributes.
    Rows(Option<Id>),
    /// The elements of tensors in a file of their own: element type, name, number.
    Storage(&'static str, String, usize),
    /// A PyTorch tensor: part of a storage.
    Tensor(Id, usize, Vec<usize>),
    /// A NumPy number: element type and bytes.
    Scalar(String, Id),
}

/// An array within a pickle.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    shape: Vec<usize>,
    descr: String,
    fortran: bool,
    bytes: Id,
}

/// Arguments of a call, dimensions of an array and characters of a name at most; what is there
/// for other reasons is copied, and must not be long.
const MAX_PARTS: usize = 64;

const NDARRAY: &str = "numpy.ndarray";
const DTYPE: &str = "numpy.dtype";
const RECONSTRUCT: &str = "numpy._reconstruct";
const SCALAR: &str = "numpy.scalar";
const ROWS: &str = "scipy.csr_matrix";
const ENCODE: &str = "codecs.encode";
const LIST: &str = "list";
const DICT: &str = "dict";
const TENSOR: &str = "torch.tensor";

/// The names that are allowed; each under its own, shorter name.
pub(super) fn global(module: &str, name: &str) -> Option<&'static str> {
    Some(match (module, name) {
        ("numpy", "ndarray") => NDARRAY,
        ("numpy", "dtype") => DTYPE,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => RECONSTRUCT,
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => SCALAR,
        ("scipy.sparse.csr" | "scipy.sparse._csr", "csr_matrix") => ROWS,
        ("_codecs", "encode") => ENCODE,
        ("__builtin__" | "builtins", "list") => LIST,
        ("collections", "defaultdict" | "OrderedDict") => DICT,
        ("torch._utils", "_rebuild_tensor_v2") => TENSOR,
        ("torch", "FloatStorage") => "<f4",
        ("torch", "DoubleStorage") => "<f8",
        ("torch", "HalfStorage") => "<f2",
        ("torch", "LongStorage") => "<i8",
        ("torch", "IntStorage") => "<i4",
        ("torch", "ShortStorage") => "<i2",
        ("torch", "CharStorage") => "|i1",
        ("torch", "ByteStorage") => "|u1",
        ("torch", "BoolStorage") => "|b1",
        _ => return None,
    })
}

/// What calling one of the names gives.
pub(super) fn call(
    pickle: &mut Pickle,
    function: Id,
    arguments: Id,
    limit: &Limit,
) -> Result<Value> {
    let Value::Global(function) = *pickle.get(function) else {
        return Err(pickle.bad("call", "calls what is no function"));
    };
    let wrong = |p: &Pickle| p.bad("call", format!("calls {function} with wrong arguments"));
    let given = pickle.list(arguments).filter(|a| a.len() <= MAX_PARTS);
    let given = given.ok_or_else(|| wrong(pickle))?.to_vec();
    let object = match function {
        RECONSTRUCT => Object::Array(None),
        ROWS => Object::Rows(None),
        DICT => return Ok(Value::Dict(Vec::new())),
        DTYPE => {
            let name = given.first().and_then(|&id| pickle.text(id));
            let name = name.filter(|n| n.len() <= MAX_PARTS);
            Object::Type(name.ok_or_else(|| wrong(pickle))?.to_owned())
        }
        SCALAR => {
            let descr = given.first().map(|&id| pickle.get(id));
            match (descr, given.get(1)) {
                (Some(Value::Object(Object::Type(t))), Some(&bytes)) => {
                    Object::Scalar(t.clone(), bytes)
                }
                _ => return Err(wrong(pickle)),
            }
        }
        ENCODE => {
            // Python 3 writes bytes as text whose characters are the bytes.
            let latin = given.get(1).and_then(|&id| pickle.text(id));
            let text = given.first().and_then(|&id| pickle.text(id));
            let (Some("latin1"), Some(text)) = (latin, text) else {
                return Err(wrong(pickle));
            };
            limit.take(text.len() as u64, pickle.file, "pickle")?;
            let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok());
            let bytes = bytes.collect::<Option<_>>();
            return bytes.map(Value::Bytes).ok_or_else(|| wrong(pickle));
        }
        TENSOR => {
            let numbers = |k: usize| {
                let list = pickle
                    .list(*given.get(k)?)
                    .filter(|l| l.len() <= MAX_PARTS)?;
                let whole = |&id: &Id| pickle.int(id).and_then(|x| usize::try_from(x).ok());
                list.iter().map(whole).collect::<Option<Vec<usize>>>()
            };
            let offset = given.get(1).and_then(|&id| pickle.int(id));
            let offset = offset.and_then(|o| usize::try_from(o).ok());
            let (Some(&storage), Some(offset), Some(shape), Some(stride)) =
                (given.first(), offset, numbers(2), numbers(3))
            else {
                return Err(wrong(pickle));
            };
            if stride != contiguous(&shape) {
                let reason = format!("has the strides {stride:?} for the shape {shape:?}");
                return Err(pickle.bad("tensor", reason));
            }
            Object::Tensor(storage, offset, shape)
        }
        _ => return Err(wrong(pickle)),
    };
    Ok(Value::Object(object))
}

/// Strides of a tensor whose elements are in order.
fn contiguous(shape: &[usize]) -> Vec<usize> {
    let mut stride = vec![1usize; shape.len()];
    for k in (1..shape.len()).rev() {
        stride[k - 1] = stride[k].saturating_mul(shape[k].max(1));
    }
    stride
}

/// What a persistent id stands for: elements of tensors, stored beside the pickle.
pub(super) fn stored(pickle: &Pickle, id: Id) -> Result<Value> {
    let parts = pickle.list(id).unwrap_or(&[]);
    let [tag, kind, name, _, count, ..] = parts[..] else {
        return Err(pickle.bad("storage", "is not described as PyTorch does"));
    };
    let count = pickle.int(count).and_then(|c| usize::try_from(c).ok());
    let name = pickle.text(name).filter(|n| n.len() <= MAX_PARTS);
    match (pickle.text(tag), pickle.get(kind), name, count) {
        (Some("storage"), Value::Global(descr), Some(name), Some(count)) => Ok(Value::Object(
            Object::Storage(descr, name.to_owned(), count),
        )),
        _ => Err(pickle.bad("storage", "is not described as PyTorch does")),
    }
}

/// Gives an object its state.
pub(super) fn extend(pickle: &mut Pickle, object: Id, state: Id, limit: &Limit) -> Result<()> {
    let parts = pickle
        .list(state)
        .filter(|p| p.len() <= MAX_PARTS)
        .map(<[Id]>::to_vec);
    let new = match (pickle.get(object).clone(), parts) {
        // (version, byte order, …)
        (Value::Object(Object::Type(name)), Some(parts)) => {
            let order = parts.get(1).and_then(|&id| pickle.text(id));
            let order = order.filter(|o| ["<", ">", "|", "="].contains(o));
            let order = order.ok_or_else(|| pickle.bad("type", "has no byte order"))?;
            Object::Type(format!(
                "{order}{}",
                name.trim_start_matches(['<', '>', '|', '='])
            ))
        }
        // (version, shape, type, Fortran order, bytes)
        (Value::Object(Object::Array(None)), Some(parts)) => {
            let wrong = || pickle.bad("array", "has a state that is not understood");
            let [_, shape, descr, fortran, bytes] = parts[..] else {
                return Err(wrong());
            };
            let whole = |&id: &Id| pickle.int(id).and_then(|x| usize::try_from(x).ok());
            let shape = pickle.list(shape).filter(|s| s.len() <= MAX_PARTS);
            let shape = shape.ok_or_else(wrong)?;
            let shape = shape.iter().map(whole).collect::<Option<_>>();
            let Value::Object(Object::Type(descr)) = pickle.get(descr) else {
                return Err(wrong());
            };
            Object::Array(Some(Stored {
                shape: shape.ok_or_else(wrong)?,
                descr: descr.clone(),
                fortran: pickle.int(fortran) == Some(1),
                bytes,
            }))
        }
        (Value::Object(Object::Rows(None)), _) => Object::Rows(Some(state)),
        // Attributes of dictionaries are of no interest.
        (Value::Dict(_), _) => return Ok(()),
        _ => return Err(pickle.bad("state", "is given to what has none")),
    };
    // Shapes and names are short, but there may be one for every few bytes of the file.
    limit.take(1024, pickle.file, "pickle")?;
    pickle.put(object, Value::Object(new));
    Ok(())
}

impl Pickle<'_> {
    /// A NumPy array of the pickle; `name` is for messages.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when the value is none, or holds something else than numbers.
    pub(super) fn array(&self, id: Id, name: &str, limit: &Limit) -> Result<Array> {
        let Value::Object(Object::Array(Some(stored))) = self.get(id) else {
            return Err(self.bad(name, "is not an array"));
        };
        let bytes = self.bytes(stored.bytes);
        let bytes = bytes.ok_or_else(|| self.bad(name, "holds Python objects, not numbers"))?;
        let header = Header {
            file: self.file,
            place: name,
            descr: &stored.descr,
            shape: stored.shape.clone(),
            fortran: stored.fortran,
        };
        npy::decode(&header, bytes, limit)
    }

    /// The attributes of a SciPy matrix of compressed rows, as a dictionary.
    ///
    /// # Errors
    /// [`crate::Error::Data`] when the value is none.
    pub(super) fn rows(&self, id: Id, name: &str) -> Result<Id> {
        match self.get(id) {
            Value::Object(Object::Rows(Some(state))) => Ok(*state),
            _ => Err(self.bad(
                name,
                "is not a matrix of compressed rows (scipy csr_matrix)",
            )),
        }
    }

    /// Element type, name of the storage, elements to read and shape of a tensor.
    pub(super) fn tensor(&self, id: Id) -> Option<(&'static str, &str, Range<usize>, &[usize])> {
        let Value::Object(Object::Tensor(storage, offset, shape)) = self.get(id) else {
            return None;
        };
        let Value::Object(Object::Storage(descr, name, held)) = self.get(*storage) else {
            return None;
        };
        let count = shape.iter().try_fold(1usize, |c, &s| c.checked_mul(s))?;
        let end = offset.checked_add(count).filter(|end| end <= held)?;
        Some((descr, name, *offset..end, shape))
    }

    /// Element type of each storage, by name.
    pub(super) fn storages(&self) -> HashMap<&str, &'static str> {
        let storage = |v| match v {
            &Value::Object(Object::Storage(descr, ref name, _)) => Some((name.as_str(), descr)),
            _ => None,
        };
        self.values().filter_map(storage).collect()
    }

    /// A whole number, also one of NumPy.
    pub(super) fn whole(&self, id: Id) -> Option<i64> {
        let Value::Object(Object::Scalar(descr, bytes)) = self.get(id) else {
            return self.int(id);
        };
        let bytes = self.bytes(*bytes)?;
        let header = Header {
            file: self.file,
            place: "number",
            descr,
            shape: vec![1],
            fortran: false,
        };
        let read = npy::decode(&header, bytes, &Limit::new(64)).ok()?;
        read.into_ints().ok()?.first().copied()
    }
}
