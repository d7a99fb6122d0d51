//! What a world file may get wrong, and where the error says it is: both formats, every kind of mistake.
