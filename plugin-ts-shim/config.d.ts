/** Configuration of the break-glass plugin. */
export interface Config {
  glidepath: {
    breakglass: {
      /**
       * The Unix socket on which the sidecar answers, an absolute path of at most 103 bytes.
       */
      socketPath: string;

      /**
       * Origins that may open a terminal besides those of `app.baseUrl` and `backend.baseUrl`,
       * such as `https://tower.example`.
       */
      allowedOrigins?: string[];

      /**
       * The catalog entity of an app; `<app>` stands for its name.
       * Default: `component:default/<app>`.
       */
      appEntityRef?: string;

      /**
       * Clusters whose environments are Ground unless something else is declared. Every other
       * cluster is Flight.
       */
      groundClusters?: string[];

      /**
       * Groups (or users) whose members may review broken glass on every app.
       * A name without a kind is a group.
       */
      reviewers?: string[];

      /** The bucket of recordings whose row names none. */
      legacyBucket?: string;

      /**
       * Development only: start and supervise the sidecar. In production it is a container of
       * its own, so that a restart of Backstage does not end a session.
       */
      sidecar?: {
        /** The `breakglass` binary. */
        command: string;
        /** Its arguments. Default: `serve`, with `--config` if `configPath` is given. */
        args?: string[];
        /** The sidecar's configuration file. */
        configPath?: string;
      };
    };
  };
}
