// Removes the label after an open marker, which names the part and does not belong to it: "thought" in Gemma 4. Text
// arrives in chunks, and the result does not depend on where it is split. One instance per choice. Pure.

export class ReasoningLabel {
  #held: string | null = ''; // null: everything that follows is reasoning

  constructor(
    private readonly label: string,
    private readonly emit: (text: string) => void,
  ) {}

  push(text: string): void {
    if (this.#held === null) return this.emit(text);
    this.#held += text;
    const begun = this.#held.trimStart();
    if (begun.length < this.label.length && this.label.startsWith(begun)) return;
    const rest = begun.startsWith(this.label) ? begun.slice(this.label.length) : null;
    // A longer word is reasoning. Line breaks after the label are dropped.
    if (rest !== null && rest.trimStart() === '') return;
    const visible = rest !== null && /^\s/.test(rest) ? rest.trimStart() : this.#held;
    this.#held = null;
    this.emit(visible);
  }
}
