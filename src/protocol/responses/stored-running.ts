// Which foreground responses are being generated: they are not stored yet, but a client who cancels one is told
// why that cannot be, rather than that it does not exist. Event-loop thread only.

export class RunningResponses {
  readonly #organizations = new Map<string, string>();   // by response id

  /** Until `ended` resolves. */
  add(organizationId: string, id: string, ended: Promise<unknown>): void {
    this.#organizations.set(id, organizationId);
    void ended.finally(() => this.#organizations.delete(id));
  }

  has(organizationId: string, id: string): boolean {
    return this.#organizations.get(id) === organizationId;
  }
}
