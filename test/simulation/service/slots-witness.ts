// Checks the invariants of fair slots (src/generation/fair-slots.ts): no more requests run than there are slots, each
// organization's requests run in order of arrival, no organization is served before one with fewer running requests,
// and no slot is free while a request is waiting.
import { PLACES } from './sim-provider.js';
import type { Owner } from './sim-time.js';

interface Slots {
  readonly waiting: Map<number, number[]>;
  readonly working: Map<number, Set<number>>;
}

export class SlotsWitness {
  readonly #threads = new Map<Owner, Slots>();
  began = 0;

  constructor(private readonly violated: (what: string) => void) {}

  slot(owner: Owner, what: 'waits' | 'begins' | 'leaves', organization: number, tag: number): void {
    let slots = this.#threads.get(owner);
    if (slots === undefined) this.#threads.set(owner, (slots = { waiting: new Map(), working: new Map() }));
    const { waiting, working } = slots;
    const line = waiting.get(organization) ?? [];
    const own = working.get(organization) ?? new Set();
    waiting.set(organization, line);
    working.set(organization, own);
    switch (what) {
      case 'waits':
        line.push(tag);
        return;
      case 'leaves':
        if (line.includes(tag)) line.splice(line.indexOf(tag), 1);
        own.delete(tag);
        return;
      case 'begins': {
        this.began++;
        if (line[0] !== tag)
          this.violated(
            `request ${tag} of organization ${organization} starts before ${String(line[0])}, which arrived earlier`,
          );
        for (const [other, others] of waiting) {
          const atWork = working.get(other)?.size ?? 0;
          if (others.length > 0 && other !== organization && atWork + 1 < own.size)
            this.violated(
              `organization ${organization} has ${own.size} running requests and gets a slot while ${other}, which has ${atWork}, waits`,
            );
        }
        line.splice(line.indexOf(tag), 1);
        own.add(tag);
        if (this.#working(slots) > PLACES) this.violated(`${this.#working(slots)} requests run in ${PLACES} places`);
      }
    }
  }

  /** Called between steps. */
  check(): void {
    for (const [owner, slots] of this.#threads) {
      const waiting = [...slots.waiting.values()].flat();
      if (!owner.alive) this.#threads.delete(owner);
      else if (waiting.length > 0 && this.#working(slots) < PLACES)
        this.violated(
          `requests ${waiting.join(', ')} wait although only ${this.#working(slots)} of ${PLACES} slots are taken`,
        );
    }
  }

  #working({ working }: Slots): number {
    return [...working.values()].reduce((sum, { size }) => sum + size, 0);
  }
}
