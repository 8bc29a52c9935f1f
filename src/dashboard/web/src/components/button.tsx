import type { AnchorHTMLAttributes, ButtonHTMLAttributes, ReactNode, Ref } from 'react';
import { Link } from 'wouter';

export type ButtonVariant = 'primary' | 'secondary' | 'ghost' | 'danger';

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: ButtonVariant;
  size?: 'normal' | 'small';
  /** The action is in progress: the button shows that, stays focusable, and ignores clicks. */
  busy?: boolean;
  ref?: Ref<HTMLButtonElement>;
}

const classes = (variant: ButtonVariant, size: 'normal' | 'small', more = ''): string =>
  `button ${variant} ${size === 'small' ? 'small' : ''} ${more}`.trim();

export function Button({
  variant = 'secondary',
  size = 'normal',
  busy = false,
  className,
  children,
  onClick,
  type = 'button',
  ...rest
}: ButtonProps): ReactNode {
  return (
    <button
      {...rest}
      type={busy && type === 'submit' ? 'button' : type}
      className={classes(variant, size, className)}
      aria-busy={busy || undefined}
      aria-disabled={busy || undefined}
      onClick={busy ? undefined : onClick}
    >
      {busy && <span className="spinner" aria-hidden="true" />}
      {children}
    </button>
  );
}

/** A link styled as a button. `href` is relative to /dashboard. */
export function LinkButton({
  href,
  variant = 'secondary',
  size = 'normal',
  children,
}: {
  href: string;
  variant?: ButtonVariant;
  size?: 'normal' | 'small';
  children: ReactNode;
}): ReactNode {
  return (
    <Link href={href} className={classes(variant, size)}>
      {children}
    </Link>
  );
}

/** A link, styled as a button, to an address outside the page's routes, such as a download. */
export function PlainLinkButton({
  variant = 'secondary',
  size = 'normal',
  children,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { variant?: ButtonVariant; size?: 'normal' | 'small' }): ReactNode {
  return (
    <a {...rest} className={classes(variant, size)}>
      {children}
    </a>
  );
}
