// The front of several wishes: which points no other point beats. Pure.

/** `wishes`: of each point what is to be small. True where no other is at most as large in all and smaller in one. */
export function frontOf(wishes: readonly (readonly number[])[]): boolean[] {
  return wishes.map(
    (own) =>
      !wishes.some(
        (other) =>
          other !== own &&
          other.every((value, at) => value <= (own[at] as number)) &&
          other.some((value, at) => value < (own[at] as number)),
      ),
  );
}
