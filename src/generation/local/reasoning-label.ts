// The word behind an open marker that names what follows and is no part of it: "thought", as Gemma 4 begins its
// reasoning. Fed in pieces; any split gives the same. One per choice. Pure.

export class ReasoningLabel {
  #held: string | null = ''; // null: all that follows is reasoning

  constructor(
    private readonly label: string,
    private readonly tell: (text: string) => void,
  ) {}

  push(text: string): void {
    if (this.#held === null) return this.tell(text);
    this.#held += text;
    const begun = this.#held.trimStart();
    if (begun.length < this.label.length && this.label.startsWith(begun)) return;
    const rest = begun.startsWith(this.label) ? begun.slice(this.label.length) : null;
    // A longer word is reasoning; line breaks behind the label are not.
    if (rest !== null && rest.trimStart() === '') return;
    const told = rest !== null && /^\s/.test(rest) ? rest.trimStart() : this.#held;
    this.#held = null;
    this.tell(told);
  }
}
