mod record;
mod source;
