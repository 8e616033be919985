//! What a rank can be doing. Enums, so that a label can never be misspelt.

/// Declares an enumeration with a word for each value.
macro_rules! labels {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident => $label:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[repr(u8)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $label)] $variant),* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word used in frames and messages.
            pub fn label(self) -> &'static str {
                match self { $($name::$variant => $label),* }
            }

            /// The value with this number, if there is one.
            pub fn from_u8(code: u8) -> Option<$name> {
                Self::ALL.get(usize::from(code)).copied()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.label())
            }
        }
    };
}

pub(crate) use labels;

labels! {
    /// Where a rank is in a run; written to its status page and named when it fails.
    Phase {
        /// Reading data and building the local part.
        Setup => "setup",
        /// Multiplying by a block or its transpose.
        Aggregate => "aggregate",
        /// Dense layers and activations.
        Update => "update",
        /// Packing and unpacking rows.
        Copy => "copy",
        /// Inside the communicator.
        Comm => "comm",
        /// The loss and its gradient.
        Loss => "loss",
        /// The optimiser step.
        Optim => "optim",
        /// Sampling blocks.
        Sample => "sample",
        /// Evaluation, outside epoch time.
        Eval => "eval",
        /// Writing a checkpoint, outside epoch time.
        Checkpoint => "checkpoint",
        /// Between the above.
        Other => "other",
        /// Left the loop.
        Done => "done",
    }
}

labels! {
    /// Which way through the model an epoch is going; splits compute time and labels messages.
    Pass {
        /// Layers in order.
        Forward => "forward",
        /// Layers in reverse.
        Backward => "backward",
        /// Weight gradients and the optimiser.
        Optim => "optim",
        /// Drawing what is trained on.
        Sample => "sample",
        /// From the model's output to scores, and back.
        Classify => "classify",
        /// The loss and its gradient.
        Loss => "loss",
        /// Outside epoch time.
        Eval => "eval",
        /// Reading data, agreeing, barriers.
        Setup => "setup",
    }
}

labels! {
    /// The `direction` column of the `comm` frame.
    Direction {
        /// Activations.
        Forward => "forward",
        /// Gradients of activations.
        Backward => "backward",
        /// Weight gradients.
        Grad => "grad",
        /// Vertices whose neighbours are asked for, and what was drawn for them.
        Sample => "sample",
        /// Vertices whose features are asked for, and their rows.
        Pull => "pull",
        /// What nobody asked for: gradients of rows to their owner, rows to ranks that will read them.
        Push => "push",
        /// Evaluation and agreement, outside epoch time.
        Eval => "eval",
    }
}

/// What a message is part of, for the `comm` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// Layer.
    pub layer: u16,
    /// Direction.
    pub direction: Direction,
}

labels! {
    /// The `op` column of the `comm` frame: what the caller asked of the communicator.
    Op {
        /// Point to point.
        P2p => "p2p",
        /// One to all.
        Broadcast => "broadcast",
        /// Sum over ranks, result everywhere.
        Allreduce => "allreduce",
        /// Everybody to everybody.
        Alltoall => "alltoall",
        /// Concatenation over ranks.
        Gather => "gather",
        /// Nothing but that everybody has come.
        Barrier => "barrier",
    }
}

labels! {
    /// The `stream` column of the `spans` frame: who did it.
    Stream {
        /// The rank's own thread, and the compute threads that it waits for.
        Host => "host",
        /// A device that works on its own.
        Device => "device",
        /// Messages, whatever the rank does meanwhile.
        Net => "net",
        /// Threads beside the one that trains, which make mini-batches: spans of several of them may overlap.
        Sampler => "sampler",
    }
}

labels! {
    /// The `phase` column of the `spans` frame.
    SpanPhase {
        /// Multiplying by a block or its transpose.
        Aggregate => "aggregate",
        /// Dense layers and activations.
        Update => "update",
        /// The loss and its gradient.
        Loss => "loss",
        /// The optimiser step.
        Optim => "optim",
        /// Drawing what is trained on.
        Sample => "sample",
        /// Packing and unpacking rows.
        Copy => "copy",
        /// Blocked while data moved.
        Transfer => "transfer",
        /// Blocked before the peer had sent.
        Wait => "wait",
        /// Data moved while the rank did something else.
        Hidden => "hidden",
        /// A message was handed to a peer.
        Send => "send",
        /// A peer's message moved.
        Receive => "receive",
    }
}
