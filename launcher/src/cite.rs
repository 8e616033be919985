//! What a text cites: the papers of strategies, and this program.

use crate::error::{Error, Result};
use gnn_core::error::nearest;
use gnn_core::strategy::Entry;

/// A paper, as BibTeX.
struct Paper {
    /// The link that strategies name.
    link: &'static str,
    entry: &'static str,
}

const PAPERS: [Paper; 8] = [
    Paper {
        link: "https://arxiv.org/abs/2005.03300",
        entry: "@inproceedings{cagnet2020,
  author    = {Alok Tripathy and Katherine Yelick and Ayd{\\i}n Bulu{\\c{c}}},
  title     = {Reducing Communication in Graph Neural Network Training},
  booktitle = {Proceedings of the International Conference for High Performance Computing, Networking, Storage and Analysis (SC)},
  year      = {2020},
  url       = {https://arxiv.org/abs/2005.03300}
}",
    },
    Paper {
        link: "https://arxiv.org/abs/2010.05337",
        entry: "@inproceedings{distdgl2020,
  author    = {Da Zheng and Chao Ma and Minjie Wang and Jinjing Zhou and Qidong Su and Xiang Song and Quan Gan and Zheng Zhang and George Karypis},
  title     = {{DistDGL}: Distributed Graph Neural Network Training for Billion-Scale Graphs},
  booktitle = {IEEE/ACM Workshop on Irregular Applications: Architectures and Algorithms (IA3)},
  year      = {2020},
  url       = {https://arxiv.org/abs/2010.05337}
}",
    },
    Paper {
        link: "https://doi.org/10.14778/3514061.3514069",
        entry: "@article{bytegnn2022,
  author  = {Chenguang Zheng and Hongzhi Chen and Yuxuan Cheng and Zhezheng Song and Yifan Wu and Changji Li and James Cheng and Hao Yang and Shuai Zhang},
  title   = {{ByteGNN}: Efficient Graph Neural Network Training at Large Scale},
  journal = {Proceedings of the VLDB Endowment},
  volume  = {15},
  number  = {6},
  pages   = {1228--1242},
  year    = {2022},
  doi     = {10.14778/3514061.3514069}
}",
    },
    Paper {
        link: "https://www.vldb.org/pvldb/vol15/p1937-peng.pdf",
        entry: "@article{sancus2022,
  author  = {Jingshu Peng and Zhao Chen and Yingxia Shao and Yanyan Shen and Lei Chen and Jiannong Cao},
  title   = {{SANCUS}: Staleness-Aware Communication-Avoiding Full-Graph Decentralized Training in Large-Scale Graph Neural Networks},
  journal = {Proceedings of the VLDB Endowment},
  volume  = {15},
  number  = {9},
  pages   = {1937--1950},
  year    = {2022},
  url     = {https://www.vldb.org/pvldb/vol15/p1937-peng.pdf}
}",
    },
    Paper {
        link: "https://doi.org/10.14778/3705829.3705837",
        entry: "@article{neutrontp2024,
  author  = {Xin Ai and Hao Yuan and Zeyu Ling and Qiange Wang and Yanfeng Zhang and Zhenbo Fu and Chaoyi Chen and Yu Gu and Ge Yu},
  title   = {{NeutronTP}: Load-Balanced Distributed Full-Graph {GNN} Training with Tensor Parallelism},
  journal = {Proceedings of the VLDB Endowment},
  volume  = {18},
  number  = {2},
  year    = {2024},
  doi     = {10.14778/3705829.3705837}
}",
    },
    Paper {
        link: "https://arxiv.org/abs/2308.10087",
        entry: "@article{gnnpipe2023,
  author  = {Jingji Chen and Zhuoming Chen and Xuehai Qian},
  title   = {{GNNPipe}: Scaling Deep {GNN} Training with Pipelined Model Parallelism},
  journal = {arXiv preprint arXiv:2308.10087},
  year    = {2023},
  url     = {https://arxiv.org/abs/2308.10087}
}",
    },
    Paper {
        link: "https://doi.org/10.1145/3626733",
        entry: "@article{hongtu2023,
  author  = {Qiange Wang and Yao Chen and Weng-Fai Wong and Bingsheng He},
  title   = {{HongTu}: Scalable Full-Graph {GNN} Training on Multiple {GPUs}},
  journal = {Proceedings of the ACM on Management of Data},
  volume  = {1},
  number  = {4},
  year    = {2023},
  doi     = {10.1145/3626733}
}",
    },
    Paper {
        link: "https://arxiv.org/abs/2211.06385",
        entry: "@article{distgnnmb2022,
  author  = {Vasimuddin Md and Ramanarayan Mohanty and Sanchit Misra and Sasikanth Avancha},
  title   = {{DistGNN-MB}: Distributed Large-Scale Graph Neural Network Training on x86 via Minibatch Sampling},
  journal = {arXiv preprint arXiv:2211.06385},
  year    = {2022},
  url     = {https://arxiv.org/abs/2211.06385}
}",
    },
];

/// This program, as BibTeX.
pub fn halobook() -> String {
    format!(
        "@software{{halobook,\n  title   = {{Halobook: notebooks for distributed training of graph neural networks}},\n  \
         version = {{{}}},\n  license = {{MIT OR Apache-2.0}}\n}}",
        env!("CARGO_PKG_VERSION")
    )
}

/// What a text cites that uses the strategy called `name`, one of `known`: its paper, where it is of one, and this
/// program.
///
/// # Errors
/// A name that is none of a strategy.
pub fn cite(name: &str, known: &[Entry]) -> Result<String> {
    let Some(entry) = known.iter().find(|entry| entry.name == name) else {
        let near = nearest(name, known.iter().map(|entry| entry.name));
        let near = near.map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        return Err(Error::refused(
            format!("there is no strategy '{name}'{near}"),
            "name a strategy: `halobook strategies` lists them",
        ));
    };
    let paper = PAPERS.iter().find(|paper| paper.link == entry.paper);
    Ok(match paper {
        Some(paper) => format!("{}\n\n{}", paper.entry, halobook()),
        None => format!("% {name} is a baseline of no paper.\n{}", halobook()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::strategy::STRATEGIES;

    #[test]
    fn every_paper_of_a_strategy_has_its_entry() {
        for entry in STRATEGIES {
            let cited = cite(entry.name, STRATEGIES).expect("a strategy");
            let of_none = cited.contains("a baseline of no paper");
            assert_eq!(of_none, entry.paper == "baseline", "{}", entry.name);
            assert_eq!(
                cited.matches('{').count(),
                cited.matches('}').count(),
                "{cited}"
            );
            assert!(cited.contains("@software{halobook"));
        }
        let used: Vec<&str> = STRATEGIES.iter().map(|entry| entry.paper).collect();
        assert!(PAPERS.iter().all(|paper| used.contains(&paper.link)));
        let refused = cite("hongtoo", STRATEGIES).expect_err("no strategy");
        assert!(refused.to_string().contains("'hongtu'"), "{refused}");
    }
}
