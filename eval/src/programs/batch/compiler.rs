//! g++ -O2 of a big generated source: a driver and its children, which end when the work is done.

use super::{Batch, check_len, work};
use crate::programs::installed::not_installed;
use crate::programs::{Place, Program, Running, Size};

/// Generated functions per second that g++ takes for them, about.
const PER_SECOND: f64 = 4.6;

const HEAD: &str = "#include <algorithm>\n#include <map>\n#include <string>\n\
    #include <unordered_map>\n#include <vector>\n";

/// `@` is its number. Templates of its own, so that nothing is compiled once for all.
const FUNCTION: &str = r"
template <int N> struct T@ {
  std::map<int, std::string> m;
  std::vector<T@<N - 1>> v;
  long sum() const { long s = m.size(); for (auto &t : v) s += t.sum(); return s; }
};
template <> struct T@<0> { int x = @; long sum() const { return x; } };
long f@(int a) {
  T@<3> t;
  std::unordered_map<std::string, int> u;
  for (int k = 0; k < a; k++) { t.m[k * @] = std::to_string(k + @); u[t.m[k]] += k; }
  t.v.resize(a);
  std::vector<long> w(a, @);
  for (auto &p : u) w.push_back(p.second % (@ + 2));
  std::sort(w.begin(), w.end(), [](long x, long y) { return x % (@ + 3) < y % (@ + 3); });
  return t.sum() + w.front();
}
";

/// The program.
#[derive(Debug)]
pub(crate) struct Compiler;

impl Program for Compiler {
    fn name(&self) -> &'static str {
        "compiler"
    }

    fn about(&self) -> &'static str {
        "g++ -O2 of a generated file: a tree of processes, whose memory is built up once"
    }

    fn missing(&self) -> Option<String> {
        not_installed(&["g++"], "g++")
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        place.write("big.cc", &source(work(size.seconds, PER_SECOND)))?;
        let args = ["g++", "-std=c++17", "-O2", "-pipe", "-c", "big.cc", "-o", "big.o"];
        Batch::start(place, &args, |dir| check_len(dir, "big.o", 1000))
    }
}

/// Functions that make the optimizers work, and hold on to what they are made of.
fn source(functions: u64) -> String {
    let mut text = HEAD.to_owned();
    for i in 0..functions {
        text.push_str(&FUNCTION.replace('@', &i.to_string()));
    }
    text
}
