//! Which node a command is about: the same two options wherever one is asked for.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use gauntlet_gateway::config::{Config, Loaded, SharedSettings};
use gauntlet_gateway::control::{self, Answer, Request};
use gauntlet_gateway::privileges;

use crate::shared_settings;

/// Where the node is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeArgs {
    /// The configuration file; without one, defaults and environment
    #[arg(short, long, value_name = "FILE", env = "GAUNTLET_CONFIG", global = true)]
    config: Option<PathBuf>,
    /// The node's data folder, if it is not the configuration's
    #[arg(short, long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,
}

impl NodeArgs {
    /// The node of this configuration file.
    pub(crate) fn of(config: &Path) -> Self {
        NodeArgs { config: Some(config.to_owned()), data: None }
    }

    /// The configuration file, if one was named.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The data folder, if one was named.
    pub(crate) fn data(&self) -> Option<&PathBuf> {
        self.data.as_ref()
    }

    /// These options as a command line has them.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let options = [("--config", &self.config), ("--data", &self.data)];
        let given = options.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        given.flat_map(|(name, path)| [OsString::from(name), path.into()]).collect()
    }

    /// The node's configuration, with the data folder that was named.
    ///
    /// # Errors
    /// The file cannot be read, or holds a mistake.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        Ok(self.loaded()?.config)
    }

    /// The same, with where each setting came from.
    ///
    /// # Errors
    /// As [`NodeArgs::load`].
    pub(crate) fn loaded(&self) -> anyhow::Result<Loaded> {
        let environment = || crate::environment::environment();
        let own = self.with_data(Loaded::load(self.config.as_deref(), environment())?)?;
        let over = |shared: &SharedSettings| self.loaded_over(shared);
        Ok(shared_settings::over(own, over))
    }

    /// The same, with these settings of the array below what the file says.
    ///
    /// # Errors
    /// As [`NodeArgs::load`], or they make no sense here.
    pub(crate) fn loaded_over(&self, shared: &SharedSettings) -> anyhow::Result<Loaded> {
        let environment = crate::environment::environment();
        self.with_data(Loaded::load_over(self.config.as_deref(), environment, shared)?)
    }

    fn with_data(&self, mut loaded: Loaded) -> anyhow::Result<Loaded> {
        if let Some(data) = &self.data {
            loaded.config.node.data.clone_from(data);
        }
        Ok(loaded)
    }

    /// The same of this text, which somebody else has read from the file.
    ///
    /// # Errors
    /// It holds a mistake.
    pub(crate) fn loaded_from(&self, text: &str) -> anyhow::Result<Loaded> {
        let path = self.config.as_deref().context("there is no configuration file")?;
        let environment = || crate::environment::environment();
        let own = self.with_data(Loaded::load_text(text, path, environment())?)?;
        let over = |shared: &SharedSettings| {
            self.with_data(Loaded::load_text_over(text, path, environment(), shared)?)
        };
        Ok(shared_settings::over(own, over))
    }

    /// The configuration of a node that was started before. Root becomes the owner of the data
    /// folder.
    ///
    /// # Errors
    /// As [`NodeArgs::load`], or there is no data folder.
    pub(crate) fn load_existing(&self) -> anyhow::Result<Config> {
        let config = self.load_to_copy()?;
        become_owner(&config.node.data)?;
        Ok(config)
    }

    /// The same for a command that also reads or writes files of the user who runs it: root stays
    /// root.
    ///
    /// # Errors
    /// As [`NodeArgs::load_existing`].
    pub(crate) fn load_to_copy(&self) -> anyhow::Result<Config> {
        let config = self.load()?;
        must_exist(&config.node.data)?;
        Ok(config)
    }

    /// The node's data folder. A configuration is read only if that says where it is. Root becomes
    /// its owner.
    ///
    /// # Errors
    /// As [`NodeArgs::load`].
    pub(crate) fn data_folder(&self) -> anyhow::Result<PathBuf> {
        let data = match &self.data {
            Some(data) => data.clone(),
            None => self.load()?.node.data,
        };
        become_owner(&data)?;
        Ok(data)
    }

    /// Asks the running node.
    ///
    /// # Errors
    /// No node answers there, or it says why it did not do it.
    pub(crate) fn ask(&self, request: &Request) -> anyhow::Result<Answer> {
        let data = self.data_folder()?;
        let answer = control::ask(&data, request).with_context(|| {
            format!("{}: no node answers; is `gauntlet serve` running there?", data.display())
        })?;
        match answer {
            Answer::Failed(why) => bail!("{why}"),
            answer => Ok(answer),
        }
    }
}

/// Becomes the owner of this data folder for good, if root runs the command and is not its owner.
///
/// # Errors
/// The system's.
pub(crate) fn become_owner(data: &Path) -> anyhow::Result<()> {
    privileges::become_owner(data)
        .with_context(|| format!("node.data {}: root cannot become its owner", data.display()))
}

/// Refuses a data folder that is not there, with what to do.
pub(crate) fn must_exist(data: &Path) -> anyhow::Result<()> {
    if !data.is_dir() {
        let shown = data.display();
        bail!("{shown}: no such folder; start `gauntlet serve` once, or name it with --data");
    }
    Ok(())
}
