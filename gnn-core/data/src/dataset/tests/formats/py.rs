//! Python values as the bytes of a pickle of protocol 2.

/// A whole pickle.
pub(super) fn pickle(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02", value, b"."].concat()
}

pub(super) fn int(x: i32) -> Vec<u8> {
    [b"J".as_slice(), &x.to_le_bytes()].concat()
}

/// A string of Python 2.
pub(super) fn string(x: &[u8]) -> Vec<u8> {
    [b"T".as_slice(), &(x.len() as u32).to_le_bytes(), x].concat()
}

/// A string of Python 3.
pub(super) fn text(x: &str) -> Vec<u8> {
    [
        b"X".as_slice(),
        &(x.len() as u32).to_le_bytes(),
        x.as_bytes(),
    ]
    .concat()
}

pub(super) fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(".as_slice(), &items.concat(), b"t"].concat()
}

pub(super) fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](".as_slice(), &items.concat(), b"e"].concat()
}

pub(super) fn dict(items: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let flat: Vec<u8> = items
        .iter()
        .flat_map(|(k, v)| [k.clone(), v.clone()].concat())
        .collect();
    [b"}(".as_slice(), &flat, b"u"].concat()
}

pub(super) fn call(module: &str, name: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
    let global = format!("c{module}\n{name}\n").into_bytes();
    [global, tuple(arguments), b"R".to_vec()].concat()
}

/// A NumPy array; Python 3 writes its bytes as text.
pub(super) fn array(descr: &str, shape: &[usize], data: &[u8], python3: bool) -> Vec<u8> {
    let (order, name) = descr.split_at(1);
    let flags = [int(0), int(1)];
    let made = [string(name.as_bytes()), flags[0].clone(), flags[1].clone()];
    let none = || b"N".to_vec();
    let state = [
        int(3),
        string(order.as_bytes()),
        none(),
        none(),
        none(),
        int(-1),
        int(-1),
        int(0),
    ];
    let dtype = [call("numpy", "dtype", &made), tuple(&state), b"b".to_vec()].concat();
    let dims: Vec<Vec<u8>> = shape.iter().map(|&s| int(s as i32)).collect();
    let bytes = if python3 {
        let latin: String = data.iter().map(|&b| char::from(b)).collect();
        call("_codecs", "encode", &[text(&latin), text("latin1")])
    } else {
        string(data)
    };
    let empty = [
        b"cnumpy\nndarray\n".to_vec(),
        tuple(&[int(0)]),
        string(b"b"),
    ];
    let whole = tuple(&[int(1), tuple(&dims), dtype, b"\x89".to_vec(), bytes]);
    let made = call("numpy.core.multiarray", "_reconstruct", &empty);
    [made, whole, b"b".to_vec()].concat()
}

pub(super) fn ints(shape: &[usize], values: &[i32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    array("<i4", shape, &data, false)
}

/// A SciPy matrix with one column set in each row, or none.
pub(super) fn rows(columns: &[Option<i32>], cols: usize) -> Vec<u8> {
    let indices: Vec<i32> = columns.iter().flatten().copied().collect();
    let mut indptr = vec![0i32];
    for c in columns {
        indptr.push(indptr.last().expect("never empty") + i32::from(c.is_some()));
    }
    let ones: Vec<u8> = indices.iter().flat_map(|_| 1f32.to_le_bytes()).collect();
    let count = indices.len();
    let state = dict(&[
        (string(b"format"), string(b"csr")),
        (
            string(b"_shape"),
            tuple(&[int(columns.len() as i32), int(cols as i32)]),
        ),
        (string(b"indptr"), ints(&[indptr.len()], &indptr)),
        (string(b"indices"), ints(&[count], &indices)),
        (string(b"data"), array("<f4", &[count], &ones, false)),
    ]);
    [
        b"cscipy.sparse.csr\ncsr_matrix\n)\x81".to_vec(),
        state,
        b"b".to_vec(),
    ]
    .concat()
}

/// A one-hot array: a class a row, or none.
pub(super) fn one_hot(classes: &[Option<usize>], count: usize) -> Vec<u8> {
    let row = |&c: &Option<usize>| (0..count).map(move |k| i32::from(c == Some(k)));
    let flat: Vec<i32> = classes.iter().flat_map(row).collect();
    ints(&[classes.len(), count], &flat)
}

/// A dictionary from vertices to neighbour lists.
pub(super) fn neighbours(of: &[(i32, &[i32])]) -> Vec<u8> {
    let made = call(
        "collections",
        "defaultdict",
        &[b"c__builtin__\nlist\n".to_vec()],
    );
    let items: Vec<u8> = of
        .iter()
        .flat_map(|(v, l)| {
            [
                int(*v),
                list(&l.iter().map(|&u| int(u)).collect::<Vec<_>>()),
            ]
            .concat()
        })
        .collect();
    [made, b"(".to_vec(), items, b"u".to_vec()].concat()
}

/// A tensor whose elements are stored under a key.
pub(super) fn tensor(kind: &str, key: &str, shape: &[usize], total: usize) -> Vec<u8> {
    let storage = format!("ctorch\n{kind}\n").into_bytes();
    let id = [
        text("storage"),
        storage,
        text(key),
        text("cpu"),
        int(total as i32),
    ];
    let mut stride = vec![1usize; shape.len()];
    (1..shape.len())
        .rev()
        .for_each(|k| stride[k - 1] = stride[k] * shape[k]);
    let numbers = |x: &[usize]| tuple(&x.iter().map(|&s| int(s as i32)).collect::<Vec<_>>());
    let hooks = call("collections", "OrderedDict", &[]);
    let stored = [tuple(&id), b"Q".to_vec()].concat();
    let parts = [
        stored,
        int(0),
        numbers(shape),
        numbers(&stride),
        b"\x89".to_vec(),
        hooks,
    ];
    call("torch._utils", "_rebuild_tensor_v2", &parts)
}
