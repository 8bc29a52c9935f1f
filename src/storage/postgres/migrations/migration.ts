// One step of the database's tables.

export interface Migration {
  /** What it brings, for who looks at monolith_versions. */
  readonly what: string;
  /**
   * Plain SQL, one statement each, all in one transaction. Requests wait until its end for the tables it changes: so it changes one
   * that is there already, or those that must change together, and other tables are other steps.
   */
  readonly statements: readonly string[];
  /**
   * The oldest version whose processes go on beside it, and may start: a step that only adds tables, and columns that may be left out,
   * names the oldest there is. Where it takes something away, or changes what something means, it is this step's own, and
   * the step is made only when no process of an earlier release is left. Two releases do what one must not: first one that
   * does without, then one that takes away.
   */
  readonly oldest: number;
}
