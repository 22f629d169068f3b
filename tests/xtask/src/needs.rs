//! What tests and the demo rest on, beside Rust and Node.
//!
//! Invariant: a part names what it rests on, and nothing else prepares it: so it runs alone, in a
//! fresh checkout too. What two parts need is made once.

use crate::run::{chain, program, run, say};
use crate::{bindings, demo, install};
use std::collections::BTreeSet;
use std::path::Path;

/// Something that must be there first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Need {
    /// Node's packages as locked: Backstage, the tests' Postgres, the browser's driver.
    NodePackages,
    /// The target that the decisions are compiled to for browsers.
    WasmTarget,
    /// A browser.
    Chromium,
    /// The sidecar and the stage, as programs.
    Programs,
    /// The decisions as Node's addon.
    Addon,
    /// The decisions as wasm, with the glue of each host.
    Wasm,
    /// The Backstage plugin, compiled.
    Plugin,
}

/// All of the product that runs on a machine.
pub(crate) const PRODUCT: &[Need] = &[Need::Programs, Need::Plugin];

impl Need {
    /// What it rests on itself.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::NodePackages | Self::WasmTarget | Self::Chromium | Self::Programs => &[],
            // What calls them by their packages' names.
            Self::Addon => &[Self::NodePackages],
            Self::Wasm => &[Self::NodePackages, Self::WasmTarget],
            // It is compiled without the addon, and does not run without it.
            Self::Plugin => &[Self::NodePackages, Self::Addon],
        }
    }

    fn make(self, root: &Path) -> Result<(), String> {
        match self {
            Self::NodePackages => install::node_packages(root),
            Self::WasmTarget => install::wasm_target(root),
            Self::Chromium => install::debian(root, &install::BROWSER),
            Self::Programs => {
                say("building the sidecar and the stage");
                demo::programs(root)
            }
            Self::Addon => {
                say("building the decisions for Node");
                let built = bindings::addon(root);
                built.map(|_| ()).map_err(|error| chain(&error))
            }
            Self::Wasm => {
                say("building the decisions for browsers");
                bindings::wasm(root).map_err(|error| chain(&error))
            }
            Self::Plugin => {
                say("building the Backstage plugin");
                run(program(root, "npm").args(["run", "--silent", "build"]))
            }
        }
    }
}

/// What this run has made already.
#[derive(Default)]
pub(crate) struct Made(BTreeSet<Need>);

impl Made {
    /// Makes what is missing, and first what that rests on.
    pub(crate) fn meet(&mut self, root: &Path, needs: &[Need]) -> Result<(), String> {
        self.meet_by(needs, &mut |need| need.make(root))
    }

    fn meet_by(
        &mut self,
        needs: &[Need],
        make: &mut impl FnMut(Need) -> Result<(), String>,
    ) -> Result<(), String> {
        for need in needs {
            if self.0.contains(need) {
                continue;
            }
            self.meet_by(need.needs(), make)?;
            make(*need)?;
            self.0.insert(*need);
        }
        Ok(())
    }
}

/// Makes all of the product.
pub(crate) fn product(root: &Path) -> Result<(), String> {
    Made::default().meet(root, PRODUCT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_need_rests_on_is_made_before_it_and_once() {
        let mut made = Made::default();
        let mut order = Vec::new();
        let mut make = |need| {
            order.push(need);
            Ok(())
        };
        made.meet_by(&[Need::Plugin], &mut make).unwrap();
        made.meet_by(&[Need::NodePackages, Need::Wasm], &mut make)
            .unwrap();
        let expected = [
            Need::NodePackages,
            Need::Addon,
            Need::Plugin,
            Need::WasmTarget,
            Need::Wasm,
        ];
        assert_eq!(order, expected);
    }

    #[test]
    fn what_could_not_be_made_is_tried_again_and_nothing_rests_on_it() {
        let mut made = Made::default();
        let mut order = Vec::new();
        let mut make = |need| {
            order.push(need);
            if need == Need::Addon {
                return Err("no addon".to_owned());
            }
            Ok(())
        };
        made.meet_by(&[Need::Plugin], &mut make).unwrap_err();
        made.meet_by(&[Need::Plugin], &mut make).unwrap_err();
        assert_eq!(order, [Need::NodePackages, Need::Addon, Need::Addon]);
    }
}
