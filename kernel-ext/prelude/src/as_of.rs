//! Rows by the last row of another frame before them: what a metric was when an event came.
//!
//! Polars has this as a feature that takes six minutes of a build.

use polars::prelude::*;

/// As-of joins.
pub trait AsOf {
    /// Each row of this frame with the last row of `right` whose `on` is not larger, among those that have the same
    /// `by`; nulls where there is none. `on` need not be sorted. Columns that both have are called `NAME_right`.
    ///
    /// ```
    /// use halobook::prelude::*;
    /// let epochs = df!("t_ms" => [10, 20, 30], "epoch" => [0, 1, 2])?;
    /// let events = df!("t_ms" => [5, 20, 29], "event" => ["start", "checkpoint", "late"])?;
    /// let joined = epochs.join_asof(&events, "t_ms", &[])?;
    /// assert_eq!(joined.column("event")?.str()?.get(2), Some("late"));
    /// # PolarsResult::Ok(())
    /// ```
    ///
    /// # Errors
    /// A column that is not there, or keys of types that do not compare.
    fn join_asof(&self, right: &DataFrame, on: &str, by: &[&str]) -> PolarsResult<DataFrame>;
}

/// Names that no user's column has.
const LEFT: &str = "__halobook_left";
const RIGHT: &str = "__halobook_right";
const SIDE: &str = "__halobook_side";

impl AsOf for DataFrame {
    fn join_asof(&self, right: &DataFrame, on: &str, by: &[&str]) -> PolarsResult<DataFrame> {
        let names: Vec<&str> = std::iter::once(on).chain(by.iter().copied()).collect();
        let keys = |frame: &DataFrame, own: &str, other: &str, side: i32| {
            let keys = frame.select(names.iter().copied())?.lazy();
            let keys = keys.with_row_index(own, None).with_columns([
                lit(NULL).cast(IDX_DTYPE).alias(other),
                lit(side).alias(SIDE),
            ]);
            let order = names.iter().copied().chain([LEFT, RIGHT, SIDE]);
            PolarsResult::Ok(keys.select(order.map(col).collect::<Vec<Expr>>()))
        };
        let before = keys(right, RIGHT, LEFT, 0)?.filter(col(on).is_not_null());
        let union = UnionArgs {
            to_supertypes: true,
            ..UnionArgs::default()
        };
        let last = col(RIGHT).fill_null_with_strategy(FillNullStrategy::Forward(None));
        let last = match by.is_empty() {
            true => last,
            false => last.over(by.iter().copied().map(col).collect::<Vec<Expr>>())?,
        };
        // Of equal keys the right ones come first.
        let sorted = SortMultipleOptions::default().with_maintain_order(true);
        let found = concat([before, keys(self, LEFT, RIGHT, 1)?], union)?
            .sort([on, SIDE], sorted)
            .with_columns([last])
            .filter(col(LEFT).is_not_null())
            .sort([LEFT], SortMultipleOptions::default())
            .select([col(RIGHT)])
            .collect()?;
        let mut rows = right.drop_many(names).take(found.column(RIGHT)?.idx()?)?;
        let both = rows.get_column_names_owned();
        for name in both.iter().filter(|name| self.column(name).is_ok()) {
            rows.rename(name, format!("{name}_right").into())?;
        }
        self.hstack(rows.columns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_before_is_found_in_each_group() {
        let left = df!("t" => [30, 10, 20, 1], "g" => ["a", "a", "b", "a"], "v" => [1, 2, 3, 4]);
        let right = df!("t" => [5, 10, 25, 20, 40], "g" => ["a", "a", "a", "b", "a"],
                        "v" => [50, 100, 250, 200, 400]);
        let (left, right) = (left.expect("a frame"), right.expect("a frame"));
        let joined = left.join_asof(&right, "t", &["g"]).expect("joined");
        let found: Vec<Option<i32>> = joined
            .column("v_right")
            .and_then(|column| Ok(column.i32()?.iter().collect()))
            .expect("numbers");
        assert_eq!(found, [Some(250), Some(100), Some(200), None]);
        assert_eq!(joined.get_column_names(), ["t", "g", "v", "v_right"]);
        let all = left.join_asof(&right, "t", &[]).expect("joined");
        let found: Vec<Option<i32>> = all
            .column("v_right")
            .and_then(|column| Ok(column.i32()?.iter().collect()))
            .expect("numbers");
        assert_eq!(found, [Some(250), Some(100), Some(200), None]);
        assert!(left.join_asof(&right, "nosuch", &[]).is_err());
    }
}
