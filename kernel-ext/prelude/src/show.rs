//! What the last line of a cell shows.
//!
//! Rust notebook engines call `evcxr_display()` on a cell's last value when the value has such a
//! method, and fall back to `Debug`. Frames are foreign types, so the method comes from a trait,
//! which `use halobook::prelude::*` brings into scope.

use polars::prelude::{DataFrame, IntoColumn, LazyFrame, Series};

use crate::display::Bundle;
use crate::frame_html::{df_html, left_out};
use crate::plot::{Plot, escape};
use crate::repeats::Runs;
use crate::run::Run;

/// A value that a cell can show richly.
///
/// Implement [`bundle`](Show::bundle) for your own types to show them too.
pub trait Show {
    /// The value in every form it has; `text/plain` always among them.
    fn bundle(&self) -> Bundle;

    /// Shows the value; called by the notebook on a cell's last value.
    fn evcxr_display(&self) {
        self.bundle().show();
    }
}

impl Show for DataFrame {
    fn bundle(&self) -> Bundle {
        Bundle::text(format!("{self}\n{}", left_out(self)).trim_end())
            .with("text/html", df_html(self))
    }
}

impl Show for Series {
    fn bundle(&self) -> Bundle {
        let frame = DataFrame::new(self.len(), vec![self.clone().into_column()]);
        let bundle = Bundle::text(self.to_string());
        match frame {
            Ok(frame) => bundle.with("text/html", df_html(&frame)),
            Err(_) => bundle,
        }
    }
}

/// Shows the plan; nothing runs before `collect()`.
impl Show for LazyFrame {
    fn bundle(&self) -> Bundle {
        let plan = match self.describe_plan() {
            Ok(plan) => plan,
            Err(error) => format!("this plan does not resolve: {error}"),
        };
        let hint = "LazyFrame: nothing has run; .collect() gives the frame";
        Bundle::text(format!("{hint}\n{plan}")).with(
            "text/html",
            format!(
                "<small>{}</small><pre>{}</pre>",
                escape(hint),
                escape(&plan)
            ),
        )
    }
}

impl Show for Plot {
    fn bundle(&self) -> Bundle {
        Bundle::text(&self.text).with("image/svg+xml", &self.svg)
    }
}

impl Show for Run {
    fn bundle(&self) -> Bundle {
        let text = self.to_string();
        match self.try_frame("runs") {
            Ok(frame) => Bundle::text(&text).with("text/html", df_html(&frame)),
            Err(_) => {
                Bundle::text(&text).with("text/html", format!("<pre>{}</pre>", escape(&text)))
            }
        }
    }
}

impl Show for Runs {
    fn bundle(&self) -> Bundle {
        let bundle = Bundle::text(self.to_string());
        match self.try_frame("runs") {
            Ok(frame) => bundle.with("text/html", df_html(&frame)),
            Err(_) => bundle,
        }
    }
}

/// A cell that ends in a fallible call shows the value, or the error in words.
impl<T: Show, E: std::fmt::Display> Show for Result<T, E> {
    fn bundle(&self) -> Bundle {
        match self {
            Ok(value) => value.bundle(),
            Err(error) => Bundle::text(format!("error: {error}")),
        }
    }
}

/// What refers to a value shows as the value.
macro_rules! show_through {
    ($($kind:ty),*) => {$(
        impl<T: Show + ?Sized> Show for $kind {
            fn bundle(&self) -> Bundle {
                (**self).bundle()
            }
        }
    )*};
}

show_through!(&T, &mut T, Box<T>, std::rc::Rc<T>, std::sync::Arc<T>);

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    #[test]
    fn what_refers_to_a_frame_shows_the_frame() {
        let frame = df!("n" => [1_i64]).expect("one column is always a frame");
        let (plain, shared) = (frame.bundle(), std::rc::Rc::new(frame.clone()));
        for same in [
            (&&frame).bundle(),
            Box::new(frame).bundle(),
            shared.bundle(),
        ] {
            assert_eq!(same.get("text/html"), plain.get("text/html"));
        }
    }

    #[test]
    fn frames_series_plans_and_errors_show() {
        let frame = df!("n" => [1_i64, 2]).expect("one column is always a frame");
        let lazy = frame.clone().lazy().filter(col("n").gt(1));
        let series = frame
            .column("n")
            .expect("just made")
            .as_materialized_series()
            .clone();
        for bundle in [frame.bundle(), series.bundle(), lazy.bundle()] {
            assert!(bundle.get("text/plain").is_some_and(|t| !t.is_empty()));
            assert!(bundle.get("text/html").is_some());
        }
        assert!(
            lazy.bundle()
                .get("text/html")
                .is_some_and(|h| h.contains("FILTER"))
        );
        let error: PolarsResult<DataFrame> = frame.select(["missing"]);
        assert!(
            error
                .bundle()
                .get("text/plain")
                .is_some_and(|t| t.starts_with("error: "))
        );
    }
}
