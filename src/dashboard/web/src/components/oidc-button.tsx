// The single sign-on button above the sign-in form. It navigates away from the page.
import type { ReactNode } from 'react';

export function OidcButton({ name, href }: { name: string; href: string }): ReactNode {
  return (
    <>
      <a className="button secondary wide" href={href}>
        Sign in with {name}
      </a>
      <p className="or">
        <span>or</span>
      </p>
    </>
  );
}
