//! GNNPipe: layers in stages, chunks of vertices in a pipeline.

#[cfg(test)]
mod tests;
